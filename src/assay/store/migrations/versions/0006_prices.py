"""What machines cost, where a result does not say so itself."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "prices",
        sa.Column("machine", sa.String(200), nullable=False),
        sa.Column("per_hour", sa.Double(), nullable=False),
        sa.Column("currency", sa.String(8), nullable=False),
        sa.Column("date", sa.String(10), nullable=False),
        sa.Column("by", sa.String(200), nullable=False),
        sa.Column("changed_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("machine", name="pk_prices"),
    )


def downgrade() -> None:
    op.drop_table("prices")

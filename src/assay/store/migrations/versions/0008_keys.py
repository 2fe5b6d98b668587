"""What a server remembers between two starts, and the key by which an agent proves who it is."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "server_facts",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_server_facts"),
    )
    op.add_column("agents", sa.Column("key", sa.String(64), nullable=False, server_default=""))
    # Where tokens are in use, that is remembered from now on.
    op.execute("INSERT INTO server_facts (name, value) SELECT 'tokens-used', 'yes' WHERE EXISTS (SELECT 1 FROM tokens)")


def downgrade() -> None:
    op.drop_column("agents", "key")
    op.drop_table("server_facts")

"""What runs on the nodes of a cluster: one job, one service, or the end of a group, each a process that Slurm starts.

Every module is `python -m assay.engines.slurm.node.X FOLDER …`, where FOLDER is the shared folder of a campaign.
Documents travel through that folder; no other network connection is needed.
"""

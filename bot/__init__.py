"""The mind: policy, workflow, agents, GitHub publication, gate, queue and storage."""

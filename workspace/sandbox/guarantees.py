"""The guarantees a sandbox gives, by name, and the sentence that explains each to a person.

The self-test tries to break every one of them; evidence records which held; untrusted mode refuses
to start while one is missing.
"""

from types import MappingProxyType

GUARANTEES = MappingProxyType(
    {
        "network_denied": "nothing outside can be reached",
        "host_loopback_denied": "services on the host's own 127.0.0.1 cannot be reached",
        "abstract_sockets_denied": "the host's abstract UNIX sockets cannot be reached",
        "vsock_denied": "sockets to a hypervisor cannot be opened",
        "only_workspace_writable": "nothing but the workspace and scratch space can be written",
        "root_read_only": "/ and /usr cannot be written",
        "dev_read_only": "/dev cannot be written and holds no real device",
        "host_files_hidden": "files of the host cannot be seen",
        "host_processes_hidden": "processes of the host cannot be seen",
        "host_environment_hidden": "the environment of the bot is not passed on",
        "not_root": "commands run as an ordinary user, outside and inside",
        "no_capabilities": "no capability is held or can be gained",
        "no_new_privileges": "set-uid programs give nothing",
        "no_user_namespaces": "no further user namespace can be made",
        "seccomp": "dangerous system calls are refused",
        "memory_capped": "memory of all processes together is limited",
        "processes_capped": "the number of processes is limited",
        "cpu_capped": "processor time is limited",
        "disk_capped": "what is written is limited in bytes and in number of files",
        "file_size_capped": "the size of one file is limited",
        "output_capped": "what is printed is limited",
        "wall_time_capped": "running time is limited",
        "no_core_dumps": "crashes write no memory images",
        "no_tiocsti": "no keystrokes can be pushed into a terminal",
        "tree_dies_on_cancel": "cancelling ends every process the command started",
        "tree_dies_with_supervisor": "when the bot is killed, so is every command it runs",
        "exit_code_true": "the exit code reported is the command's own",
        "cause_of_death_true": "what ended the command is reported as it was",
    }
)

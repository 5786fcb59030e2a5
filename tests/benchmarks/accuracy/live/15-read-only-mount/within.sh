# Run a command with the folder `serialize` mounted read-only.
mount --bind serialize serialize
mount -o remount,bind,ro serialize
exec "$@"

/** From now on the process does not outlive this one, not even after a SIGKILL. */
export function guard(pid: number): void
/** To be called when the process is gone. */
export function unguard(pid: number): void

/** One subcommand. Resolves to the exit code; `main.ts` is the only caller of `process.exit`. */
export interface Command {
  summary: string
  usage: string
  run(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number>
}

/** What went wrong, in a line on stderr. */
export function complain(error: unknown): void {
  console.error(`ojs-rabbitmq: ${error instanceof Error ? error.message : String(error)}`)
}

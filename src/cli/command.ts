/** One subcommand. Resolves to the exit code; `main.ts` is the only caller of `process.exit`. */
export interface Command {
  summary: string
  usage: string
  run(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number>
}

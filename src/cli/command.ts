import { messageOf } from '../errors.ts'

/** One subcommand. Resolves to the exit code; `main.ts` is the only caller of `process.exit`. */
export interface Command {
  summary: string
  usage: string
  run(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number>
}

/** What went wrong, in a line on stderr. */
export function complain(error: unknown): void {
  const text = messageOf(error)
  console.error(`ojs-rabbitmq: ${text.split('\n').map(printable).join('\n')}`)
}

/**
 * One line for a terminal. Whoever may declare a queue gives it arguments, which RabbitMQ repeats as
 * they are: escape sequences in them would move the cursor and rewrite what stands there.
 */
export function printable(line: string): string {
  return line.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => {
    const code = character.codePointAt(0) ?? 0
    return `\\u{${code.toString(16)}}`
  })
}

/** What a subcommand is, and how it prints to a terminal. */
import { stdout } from 'node:process'
import { messageOf } from '../errors.ts'

/** One subcommand. Resolves to the exit code; `main.ts` is the only caller of `process.exit`. */
export interface Command {
  summary: string
  usage: string
  /** It answers `--help` itself, also that of its own commands. */
  hasOwnHelp?: boolean
  run(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number>
}

/** Prints to stdout. Not with `console`, which says nothing when a file cannot take it. */
export function print(text: string): void {
  stdout.write(`${text}\n`)
}

/** Prints an error to stderr. */
export function complain(error: unknown): void {
  const text = messageOf(error)
  console.error(`ojs-rabbitmq: ${text.split('\n').map(printable).join('\n')}`)
}

/**
 * Makes a line safe for a terminal. RabbitMQ repeats a queue's arguments as they are, and whoever may declare
 * a queue chooses them: escape sequences in them would move the cursor and overwrite other text.
 */
export function printable(line: string): string {
  return line.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => {
    const code = character.codePointAt(0) ?? 0
    return `\\u{${code.toString(16)}}`
  })
}

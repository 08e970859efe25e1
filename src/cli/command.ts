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

/** What moves the cursor, or changes the order in which text is read. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

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
  return line.replace(UNSAFE, (character) => {
    const code = character.codePointAt(0) ?? 0
    return `\\u{${code.toString(16)}}`
  })
}

/** The same for JSON text, which means the same afterwards; its line breaks stay. */
export function printableJson(text: string): string {
  return text.replace(UNSAFE, (character) => (character === '\n' ? character : escaped(character)))
}

/** By UTF-16 units, as JSON escapes. */
function escaped(character: string): string {
  const units = Array.from({ length: character.length }, (_, index) => character.charCodeAt(index))
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')
}

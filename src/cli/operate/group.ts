/** What a group of commands is. */
import type { Command } from 'commander'
import type { Session } from './session.ts'

/** What a command does with its options and its argument; resolves to the exit code. */
type Action<Options> = (
  session: Session,
  options: Options,
  argument: string,
  all: readonly string[],
) => Promise<number> | number

/** Makes an action of commander of it. */
export type Run = <Options>(action: Action<Options>) => (...given: unknown[]) => Promise<void>

export interface Group {
  build(group: Command, run: Run): void
}

/** The operator's commands as one tree, which is run, and which shell completion is made of. */
import { Command, CommanderError } from 'commander'
import { complain } from '../command.ts'
import { cronGroup } from './cron.ts'
import { deadLettersGroup } from './dead-letters.ts'
import { eventsGroup } from './events.ts'
import { EXIT, endOf } from './exit-codes.ts'
import type { Group, Run } from './group.ts'
import { jobsGroup } from './jobs.ts'
import { operationsGroup } from './operations.ts'
import { queuesGroup } from './queues.ts'
import { type CommonOptions, Session } from './session.ts'
import { SUMMARIES } from './summaries.ts'
import { workersGroup } from './workers.ts'

const GROUPS: Readonly<Record<keyof typeof SUMMARIES, Group>> = {
  jobs: jobsGroup,
  queues: queuesGroup,
  'dead-letters': deadLettersGroup,
  cron: cronGroup,
  workers: workersGroup,
  operations: operationsGroup,
  events: eventsGroup,
}

/** Runs one of the groups. Resolves to the exit code. */
export async function runOperate(
  name: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<number> {
  let code: number = EXIT.done
  const program = programOf((action) => async (...given) => {
    const command = given.at(-1) as Command
    const options = command.optsWithGlobals()
    const [argument = ''] = command.args
    const session = new Session(options as CommonOptions, env)
    code = await action(session, options as never, argument, command.args)
  })
  try {
    await program.parseAsync([name, ...args], { from: 'user' })
    return code
  } catch (error) {
    return codeOf(error)
  }
}

function codeOf(error: unknown): number {
  // commander has printed the help or what is wrong with the arguments.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.mistake
  const end = endOf(error)
  if (end === null) throw error
  complain(end.text)
  return end.code
}

/** The whole tree. */
export function programOf(run: Run): Command {
  const program = new Command('ojs-rabbitmq').exitOverride()
  for (const [name, { build }] of Object.entries(GROUPS)) {
    const group = program.command(name).description(SUMMARIES[name as keyof typeof SUMMARIES])
    build(group, run)
    for (const command of group.commands) withCommon(command)
  }
  return program
}

function withCommon(command: Command): void {
  command
    .option('--url <url>', "the server's URL; default: OJS_URL, else the gateway of this machine")
    .option('--key-file <path>', 'a file with the API key; default: OJS_API_KEY')
    .option(
      '--ca <path>',
      "a PEM file with the CA of the server's certificate; default: OJS_CLIENT_CA",
    )
    .option('--cert <path>', 'a PEM file with a client certificate; default: OJS_CLIENT_CERT')
    .option('--cert-key <path>', 'a PEM file with its private key; default: OJS_CLIENT_KEY')
    .option('--json', 'print JSON, one document in a line')
    .showHelpAfterError(`See ojs-rabbitmq ${command.parent?.name()} ${command.name()} --help`)
}

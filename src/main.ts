#!/usr/bin/env node
/** The command `ojs-rabbitmq`: finds the subcommand, runs it, exits with its code. */
import { argv, env, exit, stderr, stdout } from 'node:process'
import { type Command, complain, print } from './cli/command.ts'
import { keyCommand } from './cli/key.ts'
import { ledgerCommand } from './cli/ledger.ts'
import { completionCommand, operateCommands } from './cli/operate.ts'
import { pruneCommand } from './cli/prune.ts'
import { recoverCommand } from './cli/recover.ts'
import { serveCommand } from './cli/serve.ts'
import { topologyCommand } from './cli/topology.ts'
import { VARIABLES } from './config/variables.ts'
import { ownVersion } from './own-version.ts'

const COMMANDS: Readonly<Record<string, Command>> = {
  serve: serveCommand,
  topology: topologyCommand,
  recover: recoverCommand,
  prune: pruneCommand,
  key: keyCommand,
  ledger: ledgerCommand,
  ...operateCommands,
  completion: completionCommand,
}

function help(): string {
  const commands = Object.values(COMMANDS).map(
    ({ usage, summary }) => `  ${usage}\n      ${summary}`,
  )
  const variables = Object.entries(VARIABLES).map(
    ([name, { fallback, doc }]) =>
      `  ${name.padEnd(26)} ${(fallback || '(empty)').padEnd(30)} ${doc}`,
  )
  return [
    'ojs-rabbitmq: Open Job Spec on RabbitMQ',
    '',
    ...commands,
    '  ojs-rabbitmq --version',
    '  ojs-rabbitmq COMMAND --help',
    '',
    'Configuration and defaults:',
    ...variables,
  ].join('\n')
}

async function main(): Promise<number> {
  const [name = '--help', ...args] = argv.slice(2)
  if (name === '--help' || name === '-h' || name === 'help') {
    print(help())
    return 0
  }
  if (name === '--version' || name === '-v') {
    print(await ownVersion())
    return 0
  }
  // `hasOwn`: every object inherits a `constructor`, which is no command.
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (command) return runCommand(command, args)
  complain(`unknown command '${name}'; see ojs-rabbitmq --help`)
  return 2
}

async function runCommand(command: Command, args: readonly string[]): Promise<number> {
  // `--help` may follow a word that belongs to the command, as in `key new --help`.
  if (
    !command.hasOwnHelp &&
    args.length <= 2 &&
    (args.at(-1) === '--help' || args.at(-1) === '-h')
  ) {
    print(`usage: ${command.usage}\n\n${command.summary}`)
    return 0
  }
  try {
    return await command.run(args, env)
  } catch (error) {
    if (!isMistakenArgument(error)) throw error
    console.error(`${error.message}\nusage: ${command.usage}`)
    return 2
  }
}

/** Whether `parseArgs` threw this, because of an unknown option or one without its value. */
function isMistakenArgument(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && `${error.code}`.startsWith('ERR_PARSE_ARGS_')
}

/** Exits when all output is written, or has failed: a pipe holds 64 KiB, and `exit` drops the rest. */
function end(code: number): void {
  // An error is told a turn after the callback.
  written(stdout, () => written(stderr, () => setImmediate(exit, code)))
}

/** Writes nothing if nothing waits: to a full disk not even that can be written. */
function written(stream: NodeJS.WriteStream, done: () => void): void {
  if (stream.writableLength === 0) done()
  else stream.write('', done)
}

stdout.on('error', (error: NodeJS.ErrnoException) => {
  // The reader has gone, such as `head`: it has what it wanted.
  if (error.code === 'EPIPE') return
  complain(`the output cannot be written: ${error.message}`)
  exit(1)
})
main().then(end, (error: unknown) => {
  complain(error)
  end(1)
})

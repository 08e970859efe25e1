/** The operator's commands, and shell completion; loaded only when one of them runs. */
import { type Command, print } from './command.ts'
import { SUMMARIES } from './operate/summaries.ts'

/** On the server at `--url` or `OJS_URL`, with the key in `OJS_API_KEY`. */
export const operateCommands: Readonly<Record<string, Command>> = Object.fromEntries(
  Object.entries(SUMMARIES).map(([name, summary]) => [
    name,
    {
      summary: `${summary}, at OJS_URL with OJS_API_KEY`,
      usage: `ojs-rabbitmq ${name} COMMAND [--json] [--url http://127.0.0.1:8080]`,
      hasOwnHelp: true,
      async run(args, env) {
        const { runOperate } = await import('./operate/program.ts')
        return await runOperate(name, args, env)
      },
    } satisfies Command,
  ]),
)

export const completionCommand: Command = {
  summary: 'print a script that makes the shell complete these commands',
  usage: 'ojs-rabbitmq completion bash|zsh|fish',
  async run(args) {
    const { completionScript, SHELLS } = await import('./operate/completion.ts')
    const shell = SHELLS.find((known) => known === args[0])
    if (shell === undefined || args.length > 1) {
      console.error(`usage: ${completionCommand.usage}`)
      return 2
    }
    print(completionScript(shell))
    return 0
  },
}

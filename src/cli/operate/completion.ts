/** Scripts by which shells complete `ojs-rabbitmq`, made of the commands as they are. */
import { programOf } from './program.ts'

/** Of commands that are not in the tree. */
const OTHERS: Readonly<Record<string, readonly string[]>> = {
  serve: [],
  topology: ['diff'],
  recover: ['--queue', '--dry-run', '--url'],
  prune: ['--url'],
  key: ['new'],
  completion: ['bash', 'zsh', 'fish'],
}

export const SHELLS = ['bash', 'zsh', 'fish'] as const

/** What may follow after these words, by the words with a blank between. */
function wordsByPath(): Map<string, readonly string[]> {
  const program = programOf(() => async () => {})
  const words = new Map<string, readonly string[]>()
  words.set('', [...Object.keys(OTHERS), ...program.commands.map((group) => group.name())])
  for (const [name, those] of Object.entries(OTHERS)) words.set(name, those)
  for (const group of program.commands) {
    words.set(
      group.name(),
      group.commands.map((command) => command.name()),
    )
    for (const command of group.commands) {
      const options = command.options.map(({ long }) => long ?? '')
      words.set(`${group.name()} ${command.name()}`, [...options, '--help'])
    }
  }
  return words
}

export function completionScript(shell: (typeof SHELLS)[number]): string {
  if (shell === 'fish') return fishScript()
  const cases = [...wordsByPath()].map(([path, words]) => {
    // Arguments may follow a whole command, but not the name of a group.
    const pattern = path.includes(' ') ? `"${path}"*` : `"${path}"`
    return `    ${pattern}) words="${words.join(' ')}" ;;`
  })
  const start = shell === 'zsh' ? ['autoload -U +X bashcompinit && bashcompinit'] : []
  return [...start, START, ...cases, END].join('\n')
}

const START = `_ojs_rabbitmq() {
  local current="\${COMP_WORDS[COMP_CWORD]}" path="" words="" word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ "$word" == -* ]] || path="\${path:+$path }$word"
  done
  case "$path" in`

const END = `  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _ojs_rabbitmq ojs-rabbitmq`

function fishScript(): string {
  const lines = [...wordsByPath()].flatMap(([path, words]) => {
    const [group = '', command] = path.split(' ')
    const inGroup = group === '' ? '__fish_use_subcommand' : `__fish_seen_subcommand_from ${group}`
    const ofCommand = command === undefined ? '' : `; and __fish_seen_subcommand_from ${command}`
    const condition = `'${inGroup}${ofCommand}'`
    return words.map((word) =>
      word.startsWith('--')
        ? `complete -c ojs-rabbitmq -n ${condition} -l ${word.slice(2)}`
        : `complete -c ojs-rabbitmq -f -n ${condition} -a ${word}`,
    )
  })
  return lines.join('\n')
}

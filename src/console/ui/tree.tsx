/** JSON that somebody else wrote, as a tree that opens and closes. All of it is text, whatever it contains. */
import { type ReactNode, useState } from 'react'
import { number } from '../text/format.ts'
import { t } from '../text/text.ts'
import { CopyButton } from './copy.tsx'
import { Raw } from './raw.tsx'

/** Longer texts and lists show their beginning first: a job may carry a megabyte. */
const FIRST_CHARACTERS = 2_000
const FIRST_ITEMS = 100
/** Deeper levels are closed at first. */
const OPEN_LEVELS = 3

export function Tree({ value, name }: { value: unknown; name: string }): ReactNode {
  return (
    <div className="tree">
      <div className="tree-tools">
        <CopyButton text={JSON.stringify(value, null, 2) ?? ''} name={t.copyOf(name)} />
      </div>
      <Value value={value} level={0} />
    </div>
  )
}

function Value({ value, level }: { value: unknown; level: number }): ReactNode {
  if (typeof value === 'string') return <Text text={value} />
  if (Array.isArray(value)) {
    const items = value.map((item: unknown, place): [string, unknown] => [String(place), item])
    return <Members members={items} brackets="[]" level={level} />
  }
  if (typeof value === 'object' && value !== null) {
    return <Members members={Object.entries(value)} brackets="{}" level={level} />
  }
  return <span className="tree-word">{String(value)}</span>
}

interface MembersProps {
  members: readonly [string, unknown][]
  brackets: '[]' | '{}'
  level: number
}

function Members({ members, brackets, level }: MembersProps): ReactNode {
  const [shown, setShown] = useState(FIRST_ITEMS)
  if (members.length === 0) return <span className="tree-word">{brackets}</span>
  const [open, close] = brackets
  return (
    <details className="tree-node" open={level < OPEN_LEVELS}>
      <summary>
        {open}
        <span className="faint">{number(members.length)}</span>
        {close}
      </summary>
      <ul>
        {members.slice(0, shown).map(([name, value]) => (
          <li key={name}>
            <Raw className="tree-name" text={name} />
            <Value value={value} level={level + 1} />
          </li>
        ))}
        {members.length > shown && (
          <li>
            <button type="button" className="quiet small" onClick={() => setShown(shown * 10)}>
              {t.more(members.length - shown)}
            </button>
          </li>
        )}
      </ul>
    </details>
  )
}

function Text({ text }: { text: string }): ReactNode {
  const [isWhole, setWhole] = useState(false)
  const isLong = text.length > FIRST_CHARACTERS && !isWhole
  return (
    <>
      <Raw className="tree-text" text={`"${isLong ? text.slice(0, FIRST_CHARACTERS) : text}"`} />
      {isLong && (
        <button type="button" className="quiet small" onClick={() => setWhole(true)}>
          {t.moreCharacters(text.length - FIRST_CHARACTERS)}
        </button>
      )}
    </>
  )
}

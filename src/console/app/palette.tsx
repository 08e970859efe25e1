/** The palette: a page, a queue, a job's id or a search, by writing a part of it. */
import { useNavigate } from '@tanstack/react-router'
import { type KeyboardEvent, type ReactNode, useEffect, useRef, useState } from 'react'
import { useApi } from '../api/queries.ts'
import { useMay } from '../api/session.ts'
import { t } from '../text/text.ts'
import { Dialog } from '../ui/dialog.tsx'
import { usePlaces } from './pages.ts'

const MOST = 10
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

interface Choice {
  name: string
  kind: string
  go: () => void
}

export function Palette({ onClose }: { onClose: () => void }): ReactNode {
  const [text, setText] = useState('')
  const [place, setPlace] = useState(0)
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => input.current?.focus(), [])
  const choices = useChoices(text.trim(), onClose)
  const chosen = Math.min(place, choices.length - 1)
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown') setPlace(Math.min(chosen + 1, choices.length - 1))
    else if (event.key === 'ArrowUp') setPlace(Math.max(chosen - 1, 0))
    else if (event.key === 'Enter') choices[chosen]?.go()
    else return
    event.preventDefault()
  }
  return (
    <Dialog title={t.palette.title} onClose={onClose} className="palette">
      <input
        ref={input}
        type="text"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={choices.length > 0 ? `palette-${chosen}` : undefined}
        aria-label={t.palette.title}
        placeholder={t.palette.hint}
        value={text}
        onChange={(event) => {
          setText(event.target.value)
          setPlace(0)
        }}
        onKeyDown={onKeyDown}
      />
      <div id="palette-list" role="listbox" aria-label={t.palette.title}>
        {choices.map(({ name, kind, go }, at) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the combobox
          <div
            key={`${kind} ${name}`}
            id={`palette-${at}`}
            role="option"
            tabIndex={-1}
            aria-selected={at === chosen}
            onClick={go}
          >
            <bdi>{name}</bdi> <span className="faint">{kind}</span>
          </div>
        ))}
      </div>
    </Dialog>
  )
}

function useChoices(text: string, onClose: () => void): Choice[] {
  const may = useMay()
  const navigate = useNavigate()
  const isEnabled = may('GET /ojs/v1/admin/queues')
  const queues = useApi('GET /ojs/v1/admin/queues', { query: { limit: 100 } }, { isEnabled })
  const going = (go: () => unknown) => () => {
    onClose()
    go()
  }
  const pages = usePlaces().map(({ to, name }) => ({
    name,
    kind: t.palette.page,
    go: going(() => navigate({ to })),
  }))
  const ofQueues = (queues.data?.items ?? []).map(({ name }) => ({
    name,
    kind: t.palette.queue,
    go: going(() => navigate({ to: '/queues/$name', params: { name } })),
  }))
  const wanted = text.toLowerCase()
  const found = [...pages, ...ofQueues].filter(({ name }) => name.toLowerCase().includes(wanted))
  if (!may('GET /ojs/v1/admin/jobs') || text === '') return found.slice(0, MOST)
  const search = UUID.test(text)
    ? {
        name: text,
        kind: t.palette.job,
        go: going(() => navigate({ to: '/jobs/$id', params: { id: text.toLowerCase() } })),
      }
    : {
        name: text,
        kind: t.palette.search,
        go: going(() => navigate({ to: '/jobs', search: { q: text } })),
      }
  return [...found.slice(0, MOST - 1), search]
}

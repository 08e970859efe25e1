/** The keys: `/` to the search, `g` and a letter to a page, `j` and `k` along a list, `?` for these. */
import { useNavigate } from '@tanstack/react-router'
import { type ReactNode, useEffect, useRef } from 'react'
import { t } from '../text/text.ts'
import { Dialog } from '../ui/dialog.tsx'
import { PLACES } from './pages.ts'

type Open = (what: 'palette' | 'keys' | null) => void

export function useKeys(open: Open): void {
  const navigate = useNavigate()
  const isLeading = useRef(false)
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault()
        open('palette')
        return
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target)) return
      const place = isLeading.current
        ? PLACES.find(({ letter }) => letter === event.key)
        : undefined
      isLeading.current = event.key === 'g'
      if (place !== undefined) void navigate({ to: place.to })
      else onPlainKey(event, open, () => void navigate({ to: '/jobs' }))
    }
    window.addEventListener('keydown', onKey)
    return () => window.removeEventListener('keydown', onKey)
  }, [navigate, open])
}

function onPlainKey(event: KeyboardEvent, open: Open, toJobs: () => void): void {
  if (event.key === '?') open('keys')
  else if (event.key === '/') {
    event.preventDefault()
    const box = document.querySelector<HTMLInputElement>('[data-search]')
    if (box) box.focus()
    else toJobs()
  } else if (event.key === 'j' || event.key === 'k') step(event.key === 'j' ? 1 : -1)
}

/** Along the links of the rows on the page. */
function step(by: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>('main [data-row]')]
  const { activeElement } = document
  const here = activeElement instanceof HTMLElement ? rows.indexOf(activeElement) : -1
  const next = rows[here < 0 ? 0 : here + by]
  next?.focus()
  next?.scrollIntoView({ block: 'nearest' })
}

function isWriting(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  )
}

export function KeyHelp({ onClose }: { onClose: () => void }): ReactNode {
  const rows: [string, string][] = [
    ['Ctrl K', t.keys.palette],
    ['/', t.keys.search],
    ['j, k', t.keys.step],
    ['Enter', t.keys.open],
    ['x', t.keys.select],
    ['?', t.keys.help],
    ...PLACES.map(({ letter, name }): [string, string] => [`g ${letter}`, name]),
  ]
  return (
    <Dialog title={t.keys.title} onClose={onClose}>
      <dl className="facts dialog-body">
        {rows.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  )
}

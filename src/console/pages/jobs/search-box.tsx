/** The search box with its completion. */
import { type KeyboardEvent, type ReactNode, useEffect, useId, useState } from 'react'
import { completions, type Known } from '../../search/complete.ts'
import { t } from '../../text/text.ts'

interface SearchBoxProps {
  /** The search in the address. */
  text: string
  known: Known
  onSearch: (text: string) => void
  /** Whether another text is written than was searched for. */
  onEdited: (isEdited: boolean) => void
}

export function SearchBox({ text, known, onSearch, onEdited }: SearchBoxProps): ReactNode {
  const id = useId()
  const [draft, setDraft] = useDraft(text, onEdited)
  const [place, setPlace] = useState(-1)
  const [isOpen, setOpen] = useState(false)
  const offers = isOpen ? completions(draft, known) : []
  const take = (offer: string) => {
    setDraft(offer)
    setPlace(-1)
    if (!/[:.>]$/.test(offer)) send(offer)
  }
  const send = (next: string) => {
    setOpen(false)
    onSearch(next.trim())
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const offer = offers[place]
    if (event.key === 'ArrowDown') setPlace(Math.min(place + 1, offers.length - 1))
    else if (event.key === 'ArrowUp') setPlace(Math.max(place - 1, -1))
    else if (event.key === 'Enter') offer === undefined ? send(draft) : take(offer)
    else if (event.key === 'Tab' && isOpen && offers.length === 1) take(offers[0] ?? draft)
    else if (event.key === 'Escape' && isOpen) setOpen(false)
    else return
    event.preventDefault()
  }
  return (
    <search className="search">
      <input
        type="text"
        role="combobox"
        data-search
        spellCheck={false}
        autoComplete="off"
        aria-label={t.jobs.search}
        aria-expanded={offers.length > 0}
        aria-controls={id}
        aria-activedescendant={offers[place] === undefined ? undefined : `${id}-${place}`}
        placeholder={t.jobs.hint}
        value={draft}
        onChange={(event) => {
          setDraft(event.target.value)
          setPlace(-1)
          setOpen(true)
        }}
        onBlur={() => setOpen(false)}
        onKeyDown={onKeyDown}
      />
      <div
        id={id}
        role="listbox"
        aria-label={t.jobs.offers}
        className="offers"
        hidden={offers.length === 0}
      >
        {offers.map((offer, at) => (
          <div
            key={offer}
            id={`${id}-${at}`}
            role="option"
            tabIndex={-1}
            aria-selected={at === place}
            onMouseDown={(event) => {
              event.preventDefault()
              take(offer)
            }}
          >
            <bdi>{offer.slice(offer.lastIndexOf(' ') + 1)}</bdi>
          </div>
        ))}
      </div>
    </search>
  )
}

/** What is written: the search in the address, until somebody changes it. */
function useDraft(
  text: string,
  onEdited: SearchBoxProps['onEdited'],
): [string, (draft: string) => void] {
  const [draft, setDraft] = useState(text)
  useEffect(() => setDraft(text), [text])
  const isEdited = draft.trim() !== text.trim()
  useEffect(() => onEdited(isEdited), [isEdited, onEdited])
  return [draft, setDraft]
}

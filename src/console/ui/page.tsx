/** The frame of a page: its title, what one can do there, and its content. */
import { type ReactNode, useEffect } from 'react'
import { Raw, visible } from './raw.tsx'

interface PageProps {
  title: string
  /** Behind the title, smaller. */
  aside?: ReactNode
  actions?: ReactNode
  children: ReactNode
}

export function Page({ title, aside, actions, children }: PageProps): ReactNode {
  useEffect(() => {
    document.title = `${visible(title)} · ojs-rabbitmq`
  }, [title])
  return (
    <>
      <header className="page-head">
        <h1>
          <Raw text={title} />
        </h1>
        {aside}
        <div className="actions">{actions}</div>
      </header>
      {children}
    </>
  )
}

interface CardProps {
  title: string
  /** An id, by which it gets the focus. */
  anchor?: string
  /** Its content may be endless: it scrolls by itself. */
  isLong?: true
  aside?: ReactNode
  children: ReactNode
}

export function Card({ title, aside, anchor, isLong, children }: CardProps): ReactNode {
  return (
    <section
      className={isLong ? 'card long' : 'card'}
      {...(anchor !== undefined && { id: anchor, tabIndex: -1 })}
    >
      <header className="card-head">
        <h2>
          <Raw text={title} />
        </h2>
        {aside}
      </header>
      {children}
    </section>
  )
}

interface FigureProps {
  name: string
  value: ReactNode
  note?: ReactNode
  tone?: 'bad' | 'warn' | undefined
}

/** One number that matters. */
export function Figure({ name, value, note, tone }: FigureProps): ReactNode {
  return (
    <div className={`figure ${tone ?? ''}`}>
      <div className="figure-name">{name}</div>
      <div className="figure-value">{value}</div>
      {note !== undefined && <div className="figure-note">{note}</div>}
    </div>
  )
}

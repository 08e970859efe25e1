/** A table that scrolls sideways by itself where the page is narrow. */
import type { ReactNode } from 'react'

interface TableProps {
  /** For screen readers. */
  label: string
  heads: readonly (string | { text: string; className: string })[]
  children: ReactNode
}

/** The head of a column of numbers. */
export function right(text: string): { text: string; className: string } {
  return { text, className: 'number' }
}

export function Table({ label, heads, children }: TableProps): ReactNode {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <section className="table-wrap" tabIndex={0} aria-label={label}>
      <table>
        <thead>
          <tr>
            {heads.map((head) => {
              const { text, className } =
                typeof head === 'string' ? { text: head, className: '' } : head
              return (
                <th key={text} scope="col" className={className}>
                  {text}
                </th>
              )
            })}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </section>
  )
}

/** Pages of a list that is not endless. */
import { type ReactNode, useState } from 'react'
import { number } from '../text/format.ts'
import { t } from '../text/text.ts'

interface Pages {
  query: { limit: number; offset: number }
  to: (offset: number) => void
}

export function usePages(limit: number): Pages {
  const [offset, to] = useState(0)
  return { query: { limit, offset }, to }
}

export function Pager({ pages, total }: { pages: Pages; total: number }): ReactNode {
  const { limit, offset } = pages.query
  if (total <= limit) return null
  return (
    <nav className="pager" aria-label={t.pager.label}>
      <button type="button" disabled={offset === 0} onClick={() => pages.to(offset - limit)}>
        {t.pager.back}
      </button>
      <span>
        {t.pager.place(number(offset + 1), number(Math.min(offset + limit, total)), number(total))}
      </span>
      <button
        type="button"
        disabled={offset + limit >= total}
        onClick={() => pages.to(offset + limit)}
      >
        {t.pager.on}
      </button>
    </nav>
  )
}

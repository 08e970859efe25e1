/** One page of a list that the server pages: its rows as a table, or what to say of an empty list. */
import type { UseQueryResult } from '@tanstack/react-query'
import type { ComponentProps, ReactNode } from 'react'
import { Loaded } from './answer.tsx'
import { Pager } from './pager.tsx'
import { Table } from './table.tsx'

interface PagedTableProps<T, I> extends Omit<ComponentProps<typeof Table>, 'children'> {
  of: UseQueryResult<T>
  pages: ComponentProps<typeof Pager>['pages']
  itemsOf: (answer: T) => readonly I[]
  /** A `tr` with its key. */
  row: (item: I) => ReactNode
  empty: ReactNode
}

export function PagedTable<T extends { pagination: { total: number } }, I>({
  of,
  pages,
  itemsOf,
  row,
  empty,
  ...table
}: PagedTableProps<T, I>): ReactNode {
  return (
    <Loaded of={of}>
      {(answer) => {
        const items = itemsOf(answer)
        if (items.length === 0) return empty
        return (
          <>
            <Table {...table}>{items.map(row)}</Table>
            <Pager pages={pages} total={answer.pagination.total} />
          </>
        )
      }}
    </Loaded>
  )
}

/** The jobs that match, page after page; live, but never moved under the eyes of who reads. */
import { type UseInfiniteQueryResult, useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { useEffect, useMemo, useState } from 'react'
import { call } from '../../api/client.ts'
import type { JobItem, Pagination } from '../../api/openapi.ts'
import { queries } from '../../api/queries.ts'
import type { Filters } from '../../search/query.ts'
import { useSettled } from '../../ui/settled.ts'

const PAGE = 100
const EVERY_MS = 3_000
/** As many ids as one request takes of those that are in view. */
const IN_VIEW = 60

export interface LiveJobs {
  /** As they were when their page was read. */
  jobs: readonly JobItem[]
  /** The jobs in view as they are now, by id. */
  fresh: ReadonlyMap<string, JobItem>
  total: Pagination | undefined
  error: unknown
  isLoading: boolean
  more: () => void
  /** Jobs have come that the list does not show yet. */
  hasNews: boolean
  /** Begins anew, with them. */
  showNews: () => void
}

/** `inView`: ids of the rows that somebody sees, which are asked for again. */
export function useLiveJobs(filters: Filters, inView: readonly string[]): LiveJobs {
  const key = ['jobs', filters]
  const list = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam, signal }) =>
      call('GET /ojs/v1/admin/jobs', {
        query: { limit: PAGE, ...(pageParam !== '' && { cursor: pageParam }) },
        filters,
        signal,
      }),
    initialPageParam: '',
    getNextPageParam: ({ pagination }) => pagination.next_cursor,
    // Asking again would move the rows: `hasNews` tells instead.
    staleTime: Number.POSITIVE_INFINITY,
    // It would compare all pages with themselves whenever one more comes.
    structuralSharing: false,
    gcTime: 0,
  })
  const first = useQuery({
    queryKey: ['jobs-first', filters],
    queryFn: ({ signal }) =>
      call('GET /ojs/v1/admin/jobs', { query: { limit: 1 }, filters, signal }),
    refetchInterval: EVERY_MS,
    gcTime: 0,
  })
  const fresh = useFresh(inView)
  const pages = list.data?.pages
  const jobs = useMemo(() => (pages ?? []).flatMap(({ items }) => items), [pages])
  const [wanted, setWanted] = useState({ filters, count: PAGE })
  const isSearching = useSearchFor(
    list,
    jobs.length,
    wanted.filters === filters ? wanted.count : PAGE,
  )
  const newest = first.data?.items[0]?.id
  return {
    jobs,
    fresh,
    total: first.data?.pagination ?? pages?.[0]?.pagination,
    error: list.error,
    isLoading: list.isLoading || (isSearching && jobs.length === 0),
    more: () => setWanted({ filters, count: jobs.length + PAGE }),
    hasNews: newest !== undefined && pages !== undefined && isNews(newest, jobs),
    // Not `refetch`, which asks for every page that was read.
    showNews: () => {
      setWanted({ filters, count: PAGE })
      void queries.resetQueries({ queryKey: key })
    },
  }
}

type List = Pick<
  UseInfiniteQueryResult,
  'hasNextPage' | 'isFetchingNextPage' | 'error' | 'fetchNextPage'
>

/** Asks for as many pages as it takes: one for which many jobs were compared may have few of them, or none. */
function useSearchFor(list: List, count: number, wanted: number): boolean {
  const { hasNextPage, isFetchingNextPage, error, fetchNextPage } = list
  const isSearching = hasNextPage && error === null && count < wanted
  useEffect(() => {
    if (isSearching && !isFetchingNextPage) void fetchNextPage()
  }, [isSearching, isFetchingNextPage, fetchNextPage])
  return isSearching
}

function isNews(newest: string, jobs: readonly JobItem[]): boolean {
  return jobs[0]?.id !== newest && !jobs.some(({ id }) => id === newest)
}

/** The rows in view as they are now, by id. */
function useFresh(inView: readonly string[]): ReadonlyMap<string, JobItem> {
  // Not of rows that somebody only scrolls past: each would be a request of its own.
  const settled = useSettled(inView)
  const ids = settled.slice(0, IN_VIEW)
  const { data } = useQuery({
    queryKey: ['jobs-in-view', ids],
    queryFn: ({ signal }) =>
      call('GET /ojs/v1/admin/jobs', { query: { id: ids.join(), limit: IN_VIEW }, signal }),
    enabled: ids.length > 0,
    refetchInterval: EVERY_MS,
    placeholderData: (before) => before,
    gcTime: 0,
  })
  return useMemo(() => new Map((data?.items ?? []).map((job) => [job.id, job])), [data])
}

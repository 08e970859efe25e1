/** Hooks that ask the gateway, and ask again while somebody looks. */
import {
  type InfiniteData,
  keepPreviousData,
  MutationCache,
  type Query,
  QueryCache,
  QueryClient,
  type UseQueryResult,
  useQueries,
  useQuery,
} from '@tanstack/react-query'
import { type Answer, ApiError, call, type Endpoint, type Given } from './client.ts'

const SESSION_KEY = ['GET /ojs/v1/session']

/** One for the page. Whoever is told that the session is over asks who they are. */
export const queries: QueryClient = new QueryClient({
  queryCache: new QueryCache({
    onError(error, query) {
      onFailure(error)
      if (error instanceof ApiError && error.status === 404) forgetAnswer(query)
    },
  }),
  mutationCache: new MutationCache({ onError: onFailure }),
  defaultOptions: {
    queries: {
      // Asked again by interval; a second try at once only delays the message.
      retry: false,
      staleTime: 1_000,
      networkMode: 'always',
    },
    mutations: { networkMode: 'always' },
  },
})

function onFailure(error: Error): void {
  if (error instanceof ApiError && error.status === 401) askWhoIsHere().catch(() => undefined)
}

/** What was deleted elsewhere is not shown any longer, nor what can be done with it. */
function forgetAnswer(query: Query<unknown, unknown>): void {
  query.setState({ data: undefined })
}

export function askWhoIsHere(): Promise<void> {
  return queries.invalidateQueries({ queryKey: SESSION_KEY })
}

interface Asking {
  /** Milliseconds; absent: once. Not while the page is hidden. */
  every?: number
  isEnabled?: boolean
}

type Question<E extends Endpoint> = Omit<Given<E>, 'signal' | 'body'>

/** The answer of an endpoint. A new question shows the old answer until the new one is there. */
export function useApi<E extends Endpoint>(
  endpoint: E,
  given: Question<E> = {},
  asking: Asking = {},
): UseQueryResult<Answer<E>> {
  return useQuery({ ...query(endpoint, given, asking), placeholderData: keepPreviousData })
}

/** The answers to several questions to one endpoint. */
export function useApis<E extends Endpoint>(
  endpoint: E,
  questions: readonly Question<E>[],
  asking: Asking = {},
): UseQueryResult<Answer<E>>[] {
  return useQueries({ queries: questions.map((given) => query(endpoint, given, asking)) })
}

function query<E extends Endpoint>(
  endpoint: E,
  given: Question<E>,
  { every, isEnabled = true }: Asking,
) {
  return {
    queryKey: [endpoint, given.path ?? {}, { ...given.query, ...given.filters }],
    queryFn: ({ signal }: { signal: AbortSignal }) => call(endpoint, { ...given, signal }),
    enabled: isEnabled,
    ...(every !== undefined && { refetchInterval: every }),
  }
}

/** Once the gateway is back: what has no answer yet, and is not asked by interval. */
export function askFailedAgain(): void {
  queries
    .refetchQueries({
      type: 'active',
      predicate: ({ state }) => state.status === 'error' && state.data === undefined,
    })
    .catch(() => undefined)
}

/** More pages of an endless list are not asked again: a thousand, after a hundred thousand rows. */
const MOST_PAGES = 5

/** After a change: whatever is on the page is asked again; a long list is as long as its first page then. */
export function askAgain(): void {
  for (const { queryKey, state } of queries.getQueryCache().getAll()) {
    if (hasManyPages(state.data)) queries.setQueryData(queryKey, firstPageOf(state.data))
  }
  queries
    .invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== SESSION_KEY[0] })
    .catch(() => undefined)
}

type Endless = InfiniteData<unknown>

function hasManyPages(data: unknown): data is Endless {
  if (typeof data !== 'object' || data === null || !('pages' in data)) return false
  return Array.isArray(data.pages) && data.pages.length > MOST_PAGES
}

function firstPageOf({ pages, pageParams }: Endless): Endless {
  return { pages: pages.slice(0, 1), pageParams: pageParams.slice(0, 1) }
}

/** Who is here, and what they may do: asked of the gateway, never guessed. */
import { createContext, useContext } from 'react'
import type { Endpoint } from './client.ts'
import type { Session } from './openapi.ts'

export const SessionContext = createContext<Session | null>(null)

export function useSession(): Session {
  const session = useContext(SessionContext)
  if (session === null) throw new Error('bug: no session around this')
  return session
}

/** Whether the caller may use an endpoint. What they may not is not offered; the gateway refuses it anyway. */
export function useMay(): (endpoint: Endpoint) => boolean {
  const { operations } = useSession()
  return (endpoint) => operations.includes(endpoint)
}

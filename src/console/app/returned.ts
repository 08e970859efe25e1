/** What the OpenID Connect provider has led back with, and the page that the visitor came from. */
import { call } from '../api/client.ts'

const PLACE = 'ojs-before-login'

/** Taken out of the address at once: it is of use only once, and nobody shall copy it. */
export const returned: string | null = takeReturned()

function takeReturned(): string | null {
  const { search, pathname } = window.location
  const parameters = new URLSearchParams(search)
  const isAnswer = parameters.has('state') && (parameters.has('code') || parameters.has('error'))
  if (!isAnswer) return null
  const before = window.sessionStorage.getItem(PLACE) ?? ''
  window.history.replaceState(null, '', pathname + before)
  return search
}

/** Leaves the page for the provider. */
export async function leave(): Promise<void> {
  const page = new URL('.', document.baseURI).href
  const { url } = await call('GET /ojs/v1/session/login', { query: { page } })
  window.sessionStorage.setItem(PLACE, window.location.hash)
  window.location.assign(url)
}

/** Of `/session`: sign-in and -out of the console, and what a caller may do. */
import { SESSION_SCHEMA } from '../../schemas/requests/session.ts'
import { ROLES } from '../access/api-keys.ts'
import type { Description } from './description.ts'
import { BOOLEAN, entity, INSTANT, list, oneOf, TEXT, told } from './schema.ts'

const SESSION = entity('Session', {
  needs_key: told('Whether this gateway asks for API keys.', BOOLEAN),
  signed_in: told('Whether this request has a key or a session. Always without API keys.', BOOLEAN),
  'name?': told('Of the key; of a person, after `oidc:`.', TEXT),
  'role?': oneOf(ROLES),
  'queues?': told('The key is for these only.', list(TEXT)),
  'expires_at?': told('Of the session.', INSTANT),
  'provider?': told('The OpenID Connect provider that people can sign in with.'),
  'trace_url?': told('Where to find a trace: with `{trace_id}` in it (`OJS_TRACE_URL`).'),
  'codec_url?': told('What decodes encrypted args (`OJS_CODEC_URL`).'),
  operations: told(
    'Every endpoint that the caller may use, as `GET /ojs/v1/jobs/{id}`.',
    list(TEXT),
  ),
  version: TEXT,
})

export const GET_SESSION: Description = {
  id: 'getSession',
  tag: 'system',
  summary: 'Ask who one is, and what one may do',
  answers: { 200: SESSION },
}

export const BEGIN_SESSION: Description = {
  id: 'beginSession',
  tag: 'system',
  summary: 'Exchange an API key, or the answer of a provider, for a session',
  description:
    'For web pages of this origin: the answer sets a cookie that stands for the key for 12 hours, or for the person until their ID token ends. An unknown key is a 401, a person without a role a 403; more than ten of them in a minute are a 429.',
  body: SESSION_SCHEMA,
  answers: {
    200: told('This gateway has no keys, and everybody is signed in.', SESSION),
    201: told('The cookie is set.', SESSION),
  },
  errors: [403, 429, 503],
}

export const BEGIN_LOGIN: Description = {
  id: 'beginLogin',
  tag: 'system',
  summary: 'Ask where to sign in with the OpenID Connect provider',
  description:
    'For web pages of this origin: the answer sets a cookie for ten minutes, and the page goes to `url`. The provider leads back to the console, with a query that `POST /ojs/v1/session` takes.',
  query: {
    page: told(
      'The address of the console, as the browser knows it: it ends in `/console/`.',
      TEXT,
    ),
  },
  answers: { 200: entity('Login', { url: TEXT }) },
  errors: [403, 404, 503],
}

export const END_SESSION: Description = {
  id: 'endSession',
  tag: 'system',
  summary: 'End the session',
  answers: { 204: null },
}

import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { inRoot } from '../paths.mjs'
import { say, waitingFor } from '../process/progress.mjs'
import { readText } from '../process/read-text.mjs'
import { PrivatePostgres } from './private-postgres.mjs'

/**
 * Starts the PostgreSQL of `npm start`. Its data stays in ./data/postgres for the next start.
 * @param {string} bin
 * @returns {Promise<import('./find-ledger.mjs').Ledger>}
 */
export async function startOwnPostgres(bin) {
  const dir = inRoot('data', 'postgres')
  // The one that the data were made with.
  const password = readText(join(dir, 'password')) || randomUUID()
  const server = new PrivatePostgres({ bin, dir, password })
  say('Starting a private PostgreSQL (data in ./data/postgres).')
  await waitingFor('PostgreSQL to start', () => server.start())
  return {
    url: server.url(),
    origin: `a private server on 127.0.0.1:${server.port}, data in ./data/postgres`,
    stop: () => waitingFor('PostgreSQL to stop', () => server.stop()),
    exited: () => server.exited,
    restart: async () => void (await server.start()),
  }
}

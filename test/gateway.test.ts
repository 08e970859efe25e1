import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { readConfig } from '../src/config.ts'
import { startGateway } from '../src/gateway.ts'
import { openSqliteLedger } from '../src/ledger/sqlite/open.ts'
import { createLogger } from '../src/logger.ts'

const logger = createLogger('silent')

it('that cannot be put together lets go of its ledger, so that it can be tried again', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'ojs-gateway-'))
  onTestFinished(() => rmSync(dir, { recursive: true }))
  const path = join(dir, 'ojs.db')
  const env = { OJS_LEDGER: `sqlite:${path}`, OJS_TOPOLOGY: join(dir, 'none.json') }
  const { config } = readConfig({ ...env, OJS_AMQP_URL: 'amqp://127.0.0.1:1' })
  await expect(startGateway(config, logger)).rejects.toThrow('none.json')
  const ledger = await openSqliteLedger({ path, sync: 'normal', logger })
  await ledger.close()
})

// A Prometheus of the test's own, with the rules and the example of deploy/prometheus.
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { freePort } from '../../scripts/process/ports.mjs'
import { guard, unguard } from '../../scripts/process/processes.mjs'
import { removeFolder } from '../../scripts/process/remove-folder.mjs'
import { DEBIAN_PROMETHEUS } from '../../scripts/test/environment.mjs'
import { eventually } from '../support/gateway/in-process.ts'

export const DEPLOY = resolve(import.meta.dirname, '../../deploy')

interface Sample {
  metric: Record<string, string>
  value: [number, string]
}

export interface Prometheus {
  query(expr: string): Promise<Sample[]>
  stop(): Promise<void>
}

/** Scrapes all pages twice a second, with the rules as they are but for their waiting times. */
export async function startPrometheus(
  gateways: readonly string[],
  rabbitmqPort: number,
): Promise<Prometheus> {
  const dir = mkdtempSync(join(tmpdir(), 'ojs-prometheus-'))
  const port = await freePort()
  const rules = readFileSync(join(DEPLOY, 'prometheus/alerts.yml'), 'utf8')
  writeFileSync(
    join(dir, 'alerts.yml'),
    rules.replaceAll(/for: \w+/g, 'for: 0s').replaceAll('> 300', '> 1'),
  )
  const example = readFileSync(join(DEPLOY, 'prometheus/prometheus.yml'), 'utf8')
  const config = example
    .replace('"127.0.0.1:8080"', gateways.map((url) => `"${new URL(url).host}"`).join(', '))
    .replace('127.0.0.1:15692', `127.0.0.1:${rabbitmqPort}`)
  const intervals = 'global: { scrape_interval: 500ms, evaluation_interval: 500ms }\n'
  writeFileSync(join(dir, 'prometheus.yml'), intervals + config)
  const child = spawn(
    DEBIAN_PROMETHEUS,
    [
      `--config.file=${join(dir, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(dir, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    { stdio: 'ignore' },
  )
  const { pid } = child
  if (pid !== undefined) guard(pid)
  const exited = new Promise((done) => child.once('exit', done).once('error', done))
  const url = `http://127.0.0.1:${port}`
  await eventually(() =>
    fetch(`${url}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    ),
  )
  return {
    async query(expr) {
      const body = new URLSearchParams({ query: expr })
      const answer = await fetch(`${url}/api/v1/query`, { method: 'POST', body })
      const { data, error } = (await answer.json()) as {
        data?: { result: Sample[] }
        error?: string
      }
      if (!data) throw new Error(`${expr}: ${error}`)
      return data.result
    },
    async stop() {
      child.kill('SIGKILL')
      await exited
      if (pid !== undefined) unguard(pid)
      await removeFolder(dir)
    },
  }
}

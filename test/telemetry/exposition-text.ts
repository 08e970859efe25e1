import type { TestGateway } from '../support/gateway/in-process.ts'

/** Values by `name{labels}`. Buckets and sums of histograms are left out. */
export type Samples = Readonly<Record<string, number>>

/** Reads /metrics, as Prometheus does. */
export async function scrape(gateway: TestGateway): Promise<string> {
  const response = await fetch(`${gateway.url}/metrics`)
  return await response.text()
}

/**
 * The samples whose name starts with `prefix`. Consumers of one queue are summed up, because every consumer
 * has a new tag. Sums of histograms are left out, because they are times and never exact.
 */
export function samplesOf(text: string, prefix: string): Samples {
  const samples: Record<string, number> = {}
  for (const line of text.split('\n')) {
    const at = line.lastIndexOf(' ')
    const name = line.slice(0, at).replace(/,consumer="[^"]*"/, '')
    if (!name.startsWith(prefix) || /_(bucket|sum)(\{|$)/.test(name)) continue
    samples[name] = (samples[name] ?? 0) + Number(line.slice(at + 1))
  }
  return samples
}

/** The samples that changed between the two scrapes, with the size of the change. */
export function difference(before: Samples, after: Samples): Samples {
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  const moved = [...names].map((name) => [name, (after[name] ?? 0) - (before[name] ?? 0)] as const)
  return Object.fromEntries(moved.filter(([, by]) => by !== 0))
}

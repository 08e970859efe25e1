import type { TestGateway } from '../support/in-process.ts'

/** `name{labels}` → value, of the families whose name starts so. Buckets are left out. */
export type Samples = Readonly<Record<string, number>>

/** One scrape, as Prometheus makes it. */
export async function scrape(gateway: TestGateway): Promise<string> {
  const response = await fetch(`${gateway.url}/metrics`)
  return await response.text()
}

/**
 * The consumer tag is new with every consumer: consumers of one queue are summed up. Sums of
 * histograms are times and never exact.
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

/** What moved between the two, and by how much. */
export function difference(before: Samples, after: Samples): Samples {
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  const moved = [...names].map((name) => [name, (after[name] ?? 0) - (before[name] ?? 0)] as const)
  return Object.fromEntries(moved.filter(([, by]) => by !== 0))
}

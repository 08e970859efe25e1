import { expect, it } from 'vitest'
import { compileArgsSchema } from '../../../src/schemas/args/args-schema.ts'
import { CostBudget } from '../../../src/schemas/args/cost-budget.ts'
import { FORMATS } from '../../../src/schemas/args/formats.ts'

const CASES: Record<string, { good: string[]; bad: string[] }> = {
  date: {
    good: ['2024-02-29', '0099-01-31'],
    bad: ['2023-02-29', '2024-13-01', '2024-1-1', '2024-04-31'],
  },
  time: {
    good: ['23:59:60Z', '00:00:00.5+05:30', '15:59:60-08:00', '00:29:60.5+00:30', '23:59:60+00:00'],
    bad: ['24:00:00Z', '12:00:00', '12:60:00Z', '22:59:60Z', '23:58:60Z', '23:59:61Z'],
  },
  'date-time': {
    good: ['2026-02-12T10:30:00.000Z', '2026-02-12t10:30:00-08:00'],
    bad: [
      ...['2026-02-12', '2026-02-30T10:30:00Z', '2026-02-12T10:30:00'],
      ...['2026-02-12T22:59:60Z', '2026-02-12T23:59:60+01:00'],
    ],
  },
  duration: {
    good: ['PT1S', 'P1Y2M3DT4H5M6S', 'P3W', 'PT36H', 'P1YT1M', 'P2MT3S', 'P4D', 'PT1H2M'],
    bad: [
      ...['P', 'PT', '1s', 'P1S', 'P1YT', 'PT1H30S', 'P1Y2D', 'P1W2D', 'PT1D', 'P1D2H'],
      ...['P1M1Y', 'PT1.5S', 'P-1D'],
    ],
  },
  email: {
    good: [
      ...['user@example.com', 'a.b+c@x-y.co', 'te~st@localhost', '"joe @ bloggs"@example.com'],
      ...['"a\\"b"@x.y', 'a@[127.0.0.1]', 'a@[IPv6:::1]', '""@x.y'],
    ],
    bad: [
      ...['user', '@x.y', 'a b@x.y', 'a@', 'a@-x.y', 'a@b@c', '.a@x.y', 'a.@x.y', 'a..b@x.y'],
      ...['"a"b"@x.y', '"a@x.y', 'a@[127.0.0.300]', 'a@[::1]', 'a@[IPv6:1.2.3.4]', 'a@x=y.z'],
      ...['a,b@x.y', '<a@x.y>', 'é@localhost', `${'a'.repeat(65)}@x.y`],
    ],
  },
  hostname: {
    good: ['example.com', 'a', 'xn--bcher-kva.ch'],
    bad: ['', '-a.com', 'a..b', 'a_b', `${'a'.repeat(64)}.com`],
  },
  ipv4: { good: ['127.0.0.1'], bad: ['256.0.0.1', '1.2.3'] },
  ipv6: { good: ['::1', '2001:db8::ff'], bad: [':::1', 'fe80::1%eth0', '127.0.0.1'] },
  uri: {
    good: [
      ...['https://x.y/z?a#b', 'urn:ojs:schema:a:v1', 'http://u:p@[::1]:80/a//b?c/?d#e/?f', 'a:'],
      ...['mailto:a@b.c', 'tel:+1-816', 'file:///etc/x', 'http://x/%C3%A9?%5B'],
    ],
    bad: [
      ...[
        '/relative',
        'no uri',
        'http://a b',
        '1http://x',
        'http://x/%zz',
        'http://x/é',
        'a:b#c#d',
      ],
      ...['http://x/[', 'http://[x]', '//x.y', 'http://x:port'],
    ],
  },
  uuid: {
    good: ['019539a4-b68c-7def-8000-1a2b3c4d5e6f'],
    bad: ['019539a4b68c7def80001a2b3c4d5e6f', 'x'],
  },
}

it('a format refuses texts of more than 8,192 characters', () => {
  const { violations } = compileArgsSchema({ items: { format: 'uri' } })
  const uri = (length: number) => 'https://x.y/'.padEnd(length, 'a')
  expect(violations([uri(8_192)], new CostBudget())).toBeNull()
  expect(violations([uri(8_193)], new CostBudget())).not.toBeNull()
})

it('every format has test cases', () => {
  expect(Object.keys(CASES)).toEqual(Object.keys(FORMATS))
})

it.each(Object.entries(CASES))(
  'the format %s accepts good texts and refuses bad ones',
  (format, { good, bad }) => {
    const { violations } = compileArgsSchema({ items: { format } })
    for (const text of good)
      expect([text, violations([text], new CostBudget())]).toEqual([text, null])
    for (const text of bad) expect(violations([text], new CostBudget()), text).not.toBeNull()
    // A format applies to texts only, and refuses very long ones.
    expect(violations([1, null, {}], new CostBudget())).toBeNull()
    expect(violations([`${good[0]}${' '.repeat(9_000)}`], new CostBudget())).not.toBeNull()
  },
)

it.each(['idn-email', 'json-pointer', 'regex', 'no-such-format', 'toString'])(
  'the unknown format %s accepts every text',
  (format) => {
    expect(compileArgsSchema({ items: { format } }).violations(['§'], new CostBudget())).toBeNull()
  },
)

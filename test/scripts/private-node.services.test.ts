import { execFile } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { connect } from 'amqplib'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import {
  clearLongQueuePolicy,
  needsLongQueuePolicy,
  setLongQueuePolicy,
} from '../../scripts/broker/long-queues.mjs'
import { findEpmd } from '../../scripts/broker/rabbitmq-package.mjs'
import { createVhost, type PrivateNode, startPrivateNode } from '../support/broker/rabbit.ts'
import { eventually } from '../support/gateway/in-process.ts'

describe('a vhost of the shared node', () => {
  test('takes connections, lists its queues, closes its connections, and can be dropped', async () => {
    const vhost = await createVhost()
    const connection = await connect(vhost.url)
    connection.on('error', () => {})
    const closed = new Promise((resolve) => connection.once('close', resolve))
    const channel = await connection.createChannel()
    channel.on('error', () => {})
    await channel.assertQueue('q', { durable: true })
    expect(await vhost.queue('q')).toMatchObject({ name: 'q', durable: true })
    expect(await vhost.queue('none')).toBeUndefined()
    await vhost.closeConnections()
    await closed
    await vhost.drop()
    await expect(connect(vhost.url)).rejects.toThrow(/refused|403/i)
  })
})

describe('a private node', () => {
  let node: PrivateNode
  beforeAll(async () => {
    node = await startPrivateNode()
  })
  afterAll(() => node.stop())

  test('has a rabbitmqctl in its folder that works in any environment', async () => {
    const stray = { ...process.env, RABBITMQ_NODENAME: 'other@elsewhere', ERL_EPMD_PORT: '1' }
    const command = join(node.dir, 'rabbitmqctl')
    const { stdout } = await promisify(execFile)(command, ['-q', 'list_vhosts'], { env: stray })
    expect(stdout).toContain('/ojs')
    // A crash dump of rabbitmqctl is written into the folder, too, not into the caller's.
    expect(readFileSync(command, 'utf8')).toContain(`ERL_CRASH_DUMP=${node.dir}/`)
  })

  test('loads the code of RabbitMQ at its start, and its rabbitmqctl does not', () => {
    expect(readFileSync(`/proc/${node.pid}/environ`, 'utf8')).toContain('prepare_loading')
    expect(readFileSync(join(node.dir, 'rabbitmqctl'), 'utf8')).not.toContain('prepare_loading')
  })

  test('evaluates an expression, and reports what went wrong in one that fails', async () => {
    expect(await node.evaluate('A = [1, 2],\n lists:sum(A)')).toBe('3')
    await expect(node.evaluate('1 + a')).rejects.toThrow(/^1 \+ a: .*badarith/s)
    await expect(node.evaluate('1 +')).rejects.toThrow('1 +: ')
  })

  test('keeps messages of classic queues on disk while the policy for long queues is set', async () => {
    const connection = await connect(node.url())
    const channel = await connection.createChannel()
    const names = ['ojs.queue.email', 'tenant1.ojs.queue.email', 'other']
    for (const name of names) await channel.assertQueue(name, { durable: true })
    const policies = async () => {
      const rows = await node.ctl([
        '-q',
        '-p',
        '/ojs',
        'list_queues',
        'name',
        'policy',
        '--formatter=json',
      ])
      return names.map(
        (name) => JSON.parse(rows).find((row: { name: string }) => row.name === name).policy,
      )
    }
    await setLongQueuePolicy(node)
    expect(await policies()).toEqual(['ojs-lazy', 'ojs-lazy', ''])
    await clearLongQueuePolicy(node)
    expect(await policies()).toEqual(['', '', ''])
    await connection.close()
  })

  test('fails to start on the port of another node', async () => {
    // Its own boot fails with an error, although the other node would answer on the port.
    await expect(startPrivateNode({ port: node.port })).rejects.toThrow(
      /did not start.*could_not_start_listener/s,
    )
  })

  test('starts another epmd when its own is killed, because a node would start a daemon that nobody ends', async () => {
    const first = node.epmdPid ?? 0
    // An epmd that ends soon after its start is not started again.
    await sleep(1500)
    process.kill(first, 'SIGKILL')
    await eventually(async () => isAlive(node.epmdPid) && node.epmdPid !== first)
  })

  test('keeps its data and ports over kill -9 and a restart, and leaves no process when it stops', async () => {
    await publishPersistent(node.url())
    const before = { port: node.port, pid: node.pid }
    await node.kill9()
    expect(node.pid).toBeUndefined()
    expect(isAlive(before.pid)).toBe(false)
    await node.restart()
    expect(node.port).toBe(before.port)
    expect(await readyIn(node.url())).toBe(1)

    const last = node.pid
    const epmd = node.epmdPid
    expect([isAlive(last), isAlive(epmd)]).toEqual([true, true])
    await node.stop()
    expect([isAlive(last), isAlive(epmd)]).toEqual([false, false])
  })
})

describe('a cluster', () => {
  test('is what a node makes with the one that it joins, also after kill -9', async () => {
    const first = await startPrivateNode()
    const second = await startPrivateNode({ joins: first })
    onTestFinished(async () => {
      await second.stop()
      await first.stop()
    })
    const membersSeenBy = async (node: PrivateNode) =>
      new Set((await node.evaluate('rabbit_nodes:all_running()')).match(/[\w-]+@localhost/g))
    const members = new Set([first.name, second.name])
    expect(await membersSeenBy(first)).toEqual(members)
    for (const node of [first, second]) {
      await node.kill9()
      await node.restart()
      await expect.poll(() => membersSeenBy(second), { timeout: 30_000 }).toEqual(members)
    }
    expect(second.epmdPid).toBeUndefined()
  })
})

/** With a file of its own, and else with what this system has, which stays reachable through this process. */
function anotherSystem(): string {
  const root = mkdtempSync(join(tmpdir(), 'ojs-other-system-'))
  onTestFinished(() => rmSync(root, { recursive: true }))
  mkdirSync(join(root, 'usr'))
  for (const name of readdirSync('/usr'))
    symlinkSync(`/proc/${process.pid}/root/usr/${name}`, join(root, 'usr', name))
  writeFileSync(join(root, 'usr', 'only-here'), '')
  return root
}

test.runIf(process.getuid?.() === 0)(
  'a private node runs with the programs of another system, and its data and ports are of this one',
  async () => {
    const node = await startPrivateNode({ root: anotherSystem() })
    onTestFinished(() => node.stop())
    expect(existsSync(`/proc/${node.pid}/root/usr/only-here`)).toBe(true)
    expect(existsSync('/usr/only-here')).toBe(false)
    await publishPersistent(node.url())
    expect(await node.ctl(['-q', '-p', '/ojs', 'list_queues', 'messages'])).toContain('1')
  },
)

test.each([
  ['/usr/lib/rabbitmq/lib/rabbitmq_server-3.10.8/sbin', true],
  ['/usr/lib/rabbitmq/lib/rabbitmq_server-3.11.0/sbin', true],
  ['/usr/lib/rabbitmq/lib/rabbitmq_server-3.12.1/sbin', false],
  ['/usr/lib/rabbitmq/lib/rabbitmq_server-4.0.5/sbin', false],
  ['/opt/rabbitmq/sbin', false],
])('the policy for long queues is needed with the RabbitMQ in %s: %s', (sbin, isNeeded) => {
  expect(needsLongQueuePolicy(sbin)).toBe(isNeeded)
})

describe('a private node with a slow epmd', () => {
  const late = mkdtempSync(join(tmpdir(), 'ojs-late-epmd-'))
  const path = process.env['PATH']
  afterAll(() => {
    process.env['PATH'] = path
    rmSync(late, { recursive: true })
  })

  test('waits for it, because it would otherwise start a daemon that nobody ends', async () => {
    const script = `#!/bin/sh\nsleep 3\nexec '${findEpmd()}' "$@"\n`
    writeFileSync(join(late, 'epmd'), script, { mode: 0o755 })
    process.env['PATH'] = `${late}:${path}`
    const node = await startPrivateNode()
    process.env['PATH'] = path
    const epmd = node.epmdPid
    expect(isAlive(epmd)).toBe(true)
    await node.stop()
    expect(isAlive(epmd)).toBe(false)
  })
})

async function publishPersistent(url: string): Promise<void> {
  const connection = await connect(url)
  const channel = await connection.createConfirmChannel()
  await channel.assertQueue('kept', { durable: true })
  channel.sendToQueue('kept', Buffer.from('x'), { persistent: true })
  await channel.waitForConfirms()
  await connection.close()
}

async function readyIn(url: string): Promise<number> {
  const connection = await connect(url)
  const channel = await connection.createChannel()
  const { messageCount } = await channel.checkQueue('kept')
  await connection.close()
  return messageCount
}

function isAlive(pid: number | undefined): boolean {
  try {
    return pid !== undefined && process.kill(pid, 0)
  } catch {
    return false
  }
}

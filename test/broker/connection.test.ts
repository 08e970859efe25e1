import { once } from 'node:events'
import { createServer, Socket } from 'node:net'
import { createSecureContext, TLSSocket } from 'node:tls'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { whyNotOpen } from '../../src/broker/connect-error.ts'
import { Connection, closeChannel } from '../../src/broker/connection.ts'
import type { ConnectionOptions } from '../../src/broker/connection-options.ts'
import { Authority } from '../support/certificates.ts'
import { freePort } from '../support/free-port.mjs'
import { Stopwatch } from '../support/stopwatch.ts'
import { FakePeer } from './fake-peer.ts'
import { ofLogger, Recorder } from './harness.ts'

const opened: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

async function startPeer(port?: number): Promise<FakePeer> {
  const peer = await FakePeer.start(port)
  opened.push(() => peer.stop())
  return peer
}

const FORCED = { replyCode: 320, replyText: 'CONNECTION_FORCED', classId: 0, methodId: 0 }

/** A hundredth of every wait. */
const QUICK = { random: () => -1.48 }

/** A TCP server that is none of RabbitMQ's; `serve` says what becomes of its connections. */
async function startOther(serve: (socket: Socket) => void): Promise<{ port: number; url: string }> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    serve(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  opened.push(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  return { port, url: `amqp://127.0.0.1:${port}` }
}

/** Not started; listens to itself by way of the recorder. */
function connectionTo(urls: readonly string[], given: Partial<ConnectionOptions> = {}) {
  const recorder = new Recorder()
  const lines: string[] = []
  const connection = new Connection({
    name: 'consume',
    urls,
    connectionName: 'test consume',
    logger: ofLogger(lines),
    random: () => 0.5,
    observer: recorder.observer,
    ...given,
  })
  connection.listen({
    up: () => recorder.note('up'),
    down: (reason) => recorder.note('down', reason),
    blocked: (reason) => recorder.note('blocked', reason),
    unblocked: () => recorder.note('unblocked'),
  })
  opened.push(() => connection.close())
  return { connection, recorder, lines }
}

describe('Connection', () => {
  // 320 is no error to amqplib, and 541 is one that comes before anybody can listen.
  it.each([320, 541])(
    'connects again when it is closed in the read that opened it: %i',
    async (code) => {
      const peer = await startPeer()
      peer.closedAtOnce = 2
      peer.closeCode = code
      const { connection, recorder } = connectionTo([peer.url])
      await connection.start()
      await recorder.until('up')
      expect(connection).toMatchObject({ isUp: true, generation: 1 })
      expect(peer.closedAtOnce).toBe(0)
      await expect(connection.openConfirmChannel()).resolves.toBeDefined()
    },
  )

  // amqplib's answer fails at once, and its stream is destroyed before it was ended.
  it.each([320, 404, 541])('connects again when it is reset behind that, too: %i', async (code) => {
    const peer = await startPeer()
    Object.assign(peer, { closedAtOnce: 2, closeCode: code, resetsAtOnce: true })
    const { connection, recorder } = connectionTo([peer.url], QUICK)
    await connection.start()
    await recorder.until('up')
    await expect(connection.openConfirmChannel()).resolves.toBeDefined()
    expect(connection).toMatchObject({ isUp: true, generation: 1 })
    expect(peer.closedAtOnce).toBe(0)
  })

  it('is up after start, under its name, with our heartbeat', async () => {
    const peer = await startPeer()
    const { connection, recorder } = connectionTo([peer.url])
    expect(connection.isUp).toBe(false)
    await connection.start()
    expect(connection).toMatchObject({ isUp: true, generation: 1, serverVersion: '3.10.8' })
    expect(recorder.count('up')).toBe(1)
    expect(recorder.count('reconnected')).toBe(0)
    expect(peer.received.get('ConnectionStartOk')).toMatchObject({
      clientProperties: { connection_name: 'test consume' },
      mechanism: 'PLAIN',
    })
    expect(peer.received.get('ConnectionTuneOk')).toMatchObject({ heartbeat: 60 })
  })

  it('has the heartbeat of its URL where that names one', async () => {
    const peer = await startPeer()
    await connectionTo([`${peer.url}?heartbeat=7`]).connection.start()
    expect(peer.received.get('ConnectionTuneOk')).toMatchObject({ heartbeat: 7 })
  })

  it('has the kernel look for a silent peer after half a minute', async () => {
    const keepAlive = vi.spyOn(Socket.prototype, 'setKeepAlive')
    const peer = await startPeer()
    await connectionTo([peer.url]).connection.start()
    expect(keepAlive).toHaveBeenCalledWith(true, 30_000)
    keepAlive.mockRestore()
  })

  it('takes the next host when one does not answer', async () => {
    const peer = await startPeer()
    const { connection } = connectionTo(['amqp://127.0.0.1:1', peer.url])
    await connection.start()
    expect(connection.isUp).toBe(true)
  })

  it('sends credentials as they are meant, and never shows them', async () => {
    const peer = await startPeer()
    const secret = encodeURIComponent('gehäim:@/')
    const url = `amqp://us%C3%A9r:${secret}@127.0.0.1:${peer.port}/%2Fojs`
    const { connection, lines, recorder } = connectionTo(['amqp://us%C3%A9r:x@127.0.0.1:1', url])
    await connection.start()
    const { response } = peer.received.get('ConnectionStartOk') ?? {}
    expect(Buffer.isBuffer(response) && response.toString()).toBe('\0usér\0gehäim:@/')
    expect(peer.received.get('ConnectionOpen')).toMatchObject({ virtualHost: '/ojs' })
    peer.cut()
    await recorder.until('down')
    expect(lines.length).toBeGreaterThan(1)
    for (const text of [...lines, connection.downReason]) {
      expect(text).not.toMatch(/geh|us(é|%C3%A9)r/)
    }
  })

  it('comes back within 5 s of the port listening, although the backoff is longer by then', async () => {
    const port = await freePort()
    const peer = await startPeer(port)
    const { connection, recorder, lines } = connectionTo([peer.url])
    await connection.start()
    await peer.deafen()
    peer.cut()
    await recorder.until('down')
    await expect(connection.openChannel()).rejects.toThrow('no consume connection')
    // The first attempts are after 1 s and 2 s more; the next wait is 4 s and would end at 7 s.
    await expect.poll(() => lines.join()).toContain('still no connection')
    const listening = new Stopwatch()
    await startPeer(port)
    await recorder.until('up', 2)
    expect(listening.elapsedMs).toBeLessThan(2_500)
    listening.end()
    expect(connection.generation).toBe(2)
    expect(recorder.count('reconnected', 'consume')).toBe(1)
    expect(recorder.all('reconnecting').map(({ args }) => args[1])).toEqual([1, 2, 3])
  })

  it('begins its backoff anew after each connection that came about', async () => {
    const peer = await startPeer()
    // No wait at all: ±25 % of a second, taken further.
    const { connection, recorder } = connectionTo([peer.url], { random: () => -1.5 })
    await connection.start()
    for (let losses = 1; losses <= 3; losses++) {
      peer.cut()
      await recorder.until('up', losses + 1)
    }
    expect(recorder.all('reconnecting').map(({ args }) => args[1])).toEqual([1, 1, 1])
  })

  it('knows nothing of the time that a broker took which is gone', async () => {
    const peer = await startPeer()
    const { connection, recorder } = connectionTo([peer.url])
    await connection.start()
    await connection.openChannel()
    expect(connection.latencyMs).toBeGreaterThan(0)
    peer.cut()
    await recorder.until('down')
    expect(connection.latencyMs).toBeNull()
  })

  it('does not hammer a broker that accepts and refuses', async () => {
    let attempts = 0
    const { url } = await startOther((socket) => {
      attempts += 1
      socket.once('data', () => socket.end('AMQP\0\0\x09\x01'))
    })
    const { connection, recorder } = connectionTo([url])
    const before = performance.now()
    await connection.start()
    await recorder.until('reconnecting', 2)
    // 1 s and 2 s: the bare TCP connect in between found nothing new.
    expect(performance.now() - before).toBeGreaterThan(2_900)
    expect(attempts).toBeLessThanOrEqual(4)
  })

  it('gives up a peer that never comes to the end of what it says', async () => {
    const peer = await startPeer()
    const { url } = await startOther((socket) => {
      // Of a frame of a megabyte, a heartbeat at a time.
      socket.write(Buffer.from([1, 0, 0, 0, 16, 0, 0]))
      const timer = setInterval(() => socket.write(Buffer.from([8, 0, 0, 0, 0, 0, 0, 0xce])), 10)
      socket.on('close', () => clearInterval(timer))
    })
    const { connection, lines } = connectionTo([url, peer.url], { openMs: 200 })
    await connection.start()
    expect(connection.isUp).toBe(true)
    expect(lines.join()).toContain('connection not open in time')
  })

  it.each([
    ['refuses', (socket: Socket) => socket.end('AMQP\0\0\x09\x01')],
    ['resets', (socket: Socket) => socket.resetAndDestroy()],
  ])('nor one of several that %s, while another is down', async (_how, answer) => {
    const { url } = await startOther((socket) => socket.once('data', () => answer(socket)))
    const { connection, recorder } = connectionTo([url, 'amqp://127.0.0.1:1'], QUICK)
    await connection.start()
    await recorder.until('reconnecting', 4)
    const attempts = recorder.all('reconnecting').map(({ args }) => args[1])
    expect(attempts.slice(0, 4)).toEqual([1, 2, 3, 4])
  })

  it('says that it is the virtual host which RabbitMQ refuses', async () => {
    const peer = await startPeer()
    const fields = { replyCode: 530, replyText: 'NOT_ALLOWED', classId: 10, methodId: 40 }
    peer.refusals.set('ConnectionOpen', ['ConnectionClose', fields])
    const { connection, lines } = connectionTo([`${peer.url}/%2Ftypo`])
    await connection.start()
    expect(connection.downReason).toMatch(/^RabbitMQ refused virtual host '\/typo'/)
    expect(lines.join()).toContain("virtual host '/typo'")
  })

  it('says what helps where the certificate is of an authority that Node.js does not know', async () => {
    const authority = new Authority()
    opened.push(async () => authority.remove())
    const { cert, key } = authority.issue('rabbitmq')
    // With the authority's own, as RabbitMQ sends it, and without.
    for (const chain of [Buffer.concat([cert, authority.ca.cert]), cert]) {
      const secureContext = createSecureContext({ cert: chain, key })
      const { port } = await startOther((socket) => {
        new TLSSocket(socket, { isServer: true, secureContext }).on('error', () => {})
      })
      const { connection, lines } = connectionTo([`amqps://user:s3cr3t@127.0.0.1:${port}`])
      await connection.start()
      expect(connection.downReason).toMatch(/certificate.*; NODE_EXTRA_CA_CERTS names a CA/)
      expect(lines.join()).not.toContain('s3cr3t')
    }
  })

  it('says that a URL has the scheme of the other port', async () => {
    const authority = new Authority()
    opened.push(async () => authority.remove())
    const { cert, key } = authority.issue('rabbitmq')
    const secureContext = createSecureContext({ cert, key })
    const { port } = await startOther((socket) => {
      new TLSSocket(socket, { isServer: true, secureContext }).on('error', () => socket.destroy())
    })
    const toTls = connectionTo([`amqp://127.0.0.1:${port}`]).connection
    await toTls.start()
    expect(toTls.downReason).toMatch(/^Socket closed abruptly.*; is this a port for TLS\?.*amqps:/)

    // What RabbitMQ answers to anything that is not AMQP.
    const plain = await startOther((socket) => {
      socket.once('data', () => socket.end('AMQP\0\0\x09\x01'))
    })
    const toPlain = connectionTo([`amqps://127.0.0.1:${plain.port}`]).connection
    await toPlain.start()
    expect(toPlain.downReason).toMatch(/; is this a port without TLS\?.*amqp:/)
  })

  it('says that RabbitMQ insists on a certificate', () => {
    const code = 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED'
    const error = Object.assign(new Error('tlsv13 alert certificate required\n'), { code })
    expect(whyNotOpen(error, new URL('amqps://host'))).toMatch(
      /required; .*fail_if_no_peer_cert = false/,
    )
  })

  it('takes a RabbitMQ that is starting for no other port', () => {
    const error = new Error('Socket closed abruptly during opening handshake')
    for (const url of ['amqp://host', 'amqp://host:5672', 'amqps://host:5671']) {
      expect(whyNotOpen(error, new URL(url))).toBe(error.message)
    }
  })

  it('passes on when publishers are blocked', async () => {
    const peer = await startPeer()
    const { connection, recorder } = connectionTo([peer.url])
    await connection.start()
    peer.send(0, 'ConnectionBlocked', { reason: 'low on memory' })
    await recorder.until('blocked')
    expect(connection.blockedReason).toBe('low on memory')
    peer.send(0, 'ConnectionUnblocked', {})
    await recorder.until('unblocked')
    expect(connection.blockedReason).toBe(null)
    peer.send(0, 'ConnectionBlocked', { reason: 'low on disk' })
    await recorder.until('blocked', 2)
    peer.cut()
    await recorder.until('down')
    expect(connection.blockedReason).toBe(null)
  })

  it('loses one channel to a channel error, not its siblings', async () => {
    const peer = await startPeer()
    const { connection, recorder } = connectionTo([peer.url])
    await connection.start()
    const [one, two] = [await connection.openChannel(), await connection.openConfirmChannel()]
    expect(connection.channelsActive).toBe(2)
    let twoClosed = false
    two.on('close', () => {
      twoClosed = true
    })
    const closed = new Promise((resolve) => one.on('close', resolve))
    peer.closeChannel(1, 406)
    await closed
    expect(recorder.count('channelError', 'consume', 406)).toBe(1)
    expect(connection.channelsActive).toBe(1)
    expect(connection.isUp).toBe(true)
    expect(twoClosed).toBe(false)
  })

  it('survives a listener of ours that throws', async () => {
    const peer = await startPeer()
    const { connection, lines } = connectionTo([peer.url])
    await connection.start()
    const channel = await connection.openChannel()
    channel.on('return', () => {
      throw new Error('ours')
    })
    peer.returnToSender({ channel: 1, messageId: 'a', exchange: 'x', routingKey: 'y' })
    await expect.poll(() => lines.some((line) => line.includes('bug:'))).toBe(true)
    expect(connection.isUp).toBe(true)
  })

  // Its tag was damaged on the way: nobody has it, and RabbitMQ would give it to nobody else.
  it('closes the channel of a delivery for an unknown consumer', async () => {
    const peer = await startPeer()
    const { connection, lines } = connectionTo([peer.url])
    await connection.start()
    const closed = once(await connection.openChannel(), 'close')
    peer.deliver(1, 'ojs.wep.1')
    await closed
    expect(connection.isUp).toBe(true)
    expect(lines.join()).toContain('delivery for an unknown consumer; its channel is closed')
    expect(lines.join()).not.toContain('bug:')
  })

  it('ends when it is closed: twice, before start, and while connecting', async () => {
    const never = connectionTo(['amqp://127.0.0.1:1']).connection
    await never.close()
    await never.close()

    const peer = await startPeer()
    let isReached = () => {}
    const reached = new Promise<void>((resolve) => {
      isReached = resolve
    })
    const silent = await startOther(() => isReached())
    // Nor does it take the next host then.
    const hanging = connectionTo([silent.url, peer.url]).connection
    const started = hanging.start()
    await reached
    const watch = new Stopwatch()
    await hanging.close()
    await started
    expect(watch.elapsedMs).toBeLessThan(1_000)
    watch.end()
    expect(peer.connections).toBe(0)

    const { connection, recorder, lines } = connectionTo([peer.url])
    await connection.start()
    await connection.close()
    await connection.close()
    expect(connection.isUp).toBe(false)
    expect(recorder.count('reconnecting')).toBe(0)
    expect(peer.connections).toBe(1)
    expect(lines.join()).not.toContain('no connection')
  })

  it('keeps no socket of a peer that does not answer its close', async () => {
    const peer = await startPeer()
    peer.refusals.set('ConnectionClose', ['ConnectionUnblocked', {}])
    const { connection } = connectionTo([peer.url])
    await connection.start()
    await connection.close()
    await expect.poll(() => peer.open).toBe(0)
  })

  it('is down before its channels hear that they are closed', async () => {
    const peer = await startPeer()
    const { connection } = connectionTo([peer.url])
    await connection.start()
    const channel = await connection.openChannel()
    const closed = new Promise<boolean>((resolve) => {
      channel.once('close', () => resolve(connection.isUp))
    })
    peer.send(0, 'ConnectionClose', { ...FORCED, replyCode: 541 })
    expect(await closed).toBe(false)
  })

  it('says each time that it was lost, and why', async () => {
    const peer = await startPeer()
    const { connection, recorder, lines } = connectionTo([peer.url], { random: () => -1.5 })
    await connection.start()
    for (let losses = 1; losses <= 2; losses++) {
      peer.send(0, 'ConnectionClose', FORCED)
      await recorder.until('up', losses + 1)
      expect(connection.downReason).toBe('')
    }
    expect(lines.filter((line) => line.includes('no connection to RabbitMQ'))).toHaveLength(2)
  })

  it('is made anew when it is abandoned, and tells why', async () => {
    const peer = await startPeer()
    const { connection, recorder } = connectionTo([peer.url], QUICK)
    await connection.start()
    connection.abandon('nothing is read')
    await recorder.until('down', 1, 'nothing is read')
    await recorder.until('up', 2)
  })

  it('is one, however often it is started', async () => {
    const peer = await startPeer()
    const { connection, recorder } = connectionTo([peer.url])
    await Promise.all([connection.start(), connection.start()])
    await recorder.until('up')
    await connection.close()
    expect(peer.connections).toBe(1)
  })

  it('has a channel closed that is closed already', async () => {
    const peer = await startPeer()
    const { connection, recorder } = connectionTo([peer.url])
    await connection.start()
    const channel = await connection.openChannel()
    peer.cut()
    await recorder.until('down')
    await closeChannel(channel)
  })

  it('waits for its next attempt no longer when it is closed', async () => {
    const { connection, recorder } = connectionTo(['amqp://127.0.0.1:1'])
    await connection.start()
    expect(connection.downReason).toContain('ECONNREFUSED')
    const watch = new Stopwatch()
    await connection.close()
    expect(watch.elapsedMs).toBeLessThan(500)
    watch.end()
    expect(recorder.count('reconnecting')).toBe(0)
  })
})

it('leaves its place to one that went while it was being opened', async () => {
  const peer = await startPeer()
  const first = { isUp: true, listen() {} }
  const behind = [first as unknown as Connection]
  const { connection, recorder } = connectionTo([peer.url], { ...QUICK, behind })
  const started = connection.start()
  first.isUp = false
  await started
  await recorder.until('down')
  expect(recorder.all('down')[0]?.args).toEqual(['another connection comes first'])
  first.isUp = true
  await recorder.until('up', 2)
})

it('says once that there is still none', async () => {
  const { connection, recorder, lines } = connectionTo(['amqp://127.0.0.1:1'], QUICK)
  await connection.start()
  await recorder.until('reconnecting', 3)
  expect(lines.filter((line) => line.includes('"message":"no connection'))).toHaveLength(1)
})

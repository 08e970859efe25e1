/** The servers of `npm run bench:peers`, each with data of its own in one directory, on free ports. */
import { execFileSync, fork, spawn } from 'node:child_process'
import { chmodSync, closeSync, mkdirSync, openSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { totalmem } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { PrivateBroker } from '../../scripts/broker/private-broker.mjs'
import { guard, unguard } from '../../scripts/process/processes.mjs'

const POSTGRES_BIN = '/usr/lib/postgresql/15/bin'

/**
 * @typedef {{ pid: number, stop: () => Promise<unknown> }} Server
 * @param {string} sbin
 * @param {string} dir
 */

export async function startRabbitMq(sbin, dir) {
  const conf = `vm_memory_high_watermark.absolute = ${Math.round(0.4 * totalmem())}`
  const node = new PrivateBroker({ sbin, dir: join(dir, 'rabbitmq'), conf, erlArgs: '' })
  await node.start()
  const stop = () => node.kill9().then(() => node.stop())
  return { pid: Number(node.pid), url: node.url(), stop }
}

/**
 * `isSafe`: each write is synced before its answer (`appendfsync always`); else nothing is written at all.
 * @param {string} dir
 * @param {boolean} isSafe
 */
export async function startRedis(dir, isSafe) {
  const home = join(dir, isSafe ? 'redis-always' : 'redis-volatile')
  mkdirSync(home)
  const port = await freePort()
  const durability = isSafe
    ? ['--appendonly', 'yes', '--appendfsync', 'always']
    : ['--appendonly', 'no']
  const fixed = ['--port', port, '--bind', '127.0.0.1', '--dir', home, '--save', '']
  const policy = ['--maxmemory-policy', 'noeviction']
  const server = startServer('redis-server', [...fixed, ...policy, ...durability].map(String), home)
  await untilOpen(port)
  return { ...server, port }
}

/**
 * Defaults (every commit is synced), but with buffers and WAL for a machine of its own.
 * @param {string} dir
 */
export async function startPostgres(dir) {
  const home = join(dir, 'postgres')
  mkdirSync(home)
  const as =
    process.getuid?.() === 0
      ? ['setpriv', '--reuid=postgres', '--regid=postgres', '--clear-groups']
      : []
  if (as.length > 0) {
    chmodSync(dir, 0o755)
    execFileSync('chown', ['postgres', home])
  }
  const data = join(home, 'data')
  const [initdb = '', ...rest] = [
    ...as,
    `${POSTGRES_BIN}/initdb`,
    '-D',
    data,
    '-A',
    'trust',
    '-U',
    'bench',
  ]
  execFileSync(initdb, rest, { cwd: '/', stdio: 'ignore' })
  const port = await freePort()
  const settings = ['shared_buffers=512MB', 'max_wal_size=4GB', `unix_socket_directories=${home}`]
  const options = settings.flatMap((each) => ['-c', each])
  const [command = '', ...args] = [
    ...as,
    `${POSTGRES_BIN}/postgres`,
    ...['-D', data, '-p', String(port), '-h', '127.0.0.1'],
    ...options,
  ]
  const server = startServer(command, args, home, 'SIGINT')
  await untilOpen(port)
  await sleep(500)
  return { ...server, url: `postgres://bench@127.0.0.1:${port}/postgres` }
}

/**
 * @returns {Promise<Server & { url: string }>}
 * @param {string} modules
 * @param {number} redisPort
 */
export async function startExpress(modules, redisPort) {
  const file = fileURLToPath(new URL('./express-bullmq.mjs', import.meta.url))
  const child = fork(file, [modules, String(redisPort)], {
    env: { ...process.env, NODE_ENV: 'production' },
  })
  const pid = Number(child.pid)
  guard(pid)
  const exited = new Promise((resolve) => child.once('exit', resolve)).then(() => unguard(pid))
  const { url } = await new Promise((resolve, reject) => {
    child.once('message', resolve)
    child.once('exit', () => reject(new Error('Express did not start')))
  })
  const stop = () => {
    child.kill('SIGKILL')
    return exited
  }
  return { pid, url, stop }
}

/**
 * @param {string} command
 * @param {string[]} args
 * @param {string} home
 * @param {string} [signal]
 */
function startServer(command, args, home, signal = 'SIGTERM') {
  const log = openSync(join(home, '..', `${command.split('/').at(-1)}-${Date.now()}.log`), 'w')
  const child = spawn(command, args, { cwd: '/', stdio: ['ignore', log, log], detached: true })
  closeSync(log)
  const pid = Number(child.pid)
  guard(pid)
  const exited = new Promise((resolve) => child.once('exit', resolve)).then(() => unguard(pid))
  const stop = () => {
    child.kill(/** @type {NodeJS.Signals} */ (signal))
    return exited
  }
  return { pid, stop }
}

function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
      server.close(() => resolve(port))
    })
  })
}

/** @param {number} port */
async function untilOpen(port) {
  for (let tries = 0; tries < 600; tries++) {
    const isOpen = await new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1', () => resolve(true))
      socket.once('error', () => resolve(false))
      socket.once('connect', () => socket.destroy())
    })
    if (isOpen) return
    await sleep(50)
  }
  throw new Error(`nothing listens on port ${port}`)
}

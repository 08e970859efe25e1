import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { onOneCpu } from '../process/one-cpu.mjs'
import { freePort } from '../process/ports.mjs'
import { Refusal } from '../process/progress.mjs'
import { readText } from '../process/read-text.mjs'

/**
 * @typedef {Readonly<{ name: string, dir: string, epmdPort: number }>} Member a node
 *
 * @typedef {object} PrivateBrokerOptions
 * @property {string} sbin folder with `rabbitmq-server` and `rabbitmqctl`
 * @property {string} [root] root folder of another Debian, whose RabbitMQ and Erlang run; only for root
 * @property {string} dir everything of the node is below it: data, logs, cookie, configuration
 * @property {number} [port] AMQP port; default: a free one
 * @property {readonly string[]} [plugins] for example `rabbitmq_management`, `rabbitmq_prometheus`
 * @property {string} [conf] lines for rabbitmq.conf; they win over the defaults
 * @property {string} [advanced] the Erlang term of advanced.config
 * @property {string} [vhost] default vhost, created at the first start; default `/ojs`
 * @property {Member} [joins] a running node: this one becomes a member of its cluster
 * @property {boolean} [isDisposable] nobody needs its data after `stop`, which then takes no time (else 1–6 s)
 * @property {string} [erlArgs] flags of the Erlang machine; default: a small one on one CPU, with one
 *   scheduler, without busy waiting
 *
 * @typedef {PrivateBrokerOptions & Required<Pick<PrivateBrokerOptions, keyof typeof DEFAULTS>>} NodeOptions
 * @typedef {Awaited<ReturnType<typeof choosePorts>>} Ports
 */

export const DEFAULTS = {
  vhost: '/ojs',
  /** @type {readonly string[]} */
  plugins: [],
  conf: '',
}

const COOKIE = '.erlang.cookie'

/** A node without `erlArgs` is a small one: it shares two cores with a gateway and a test run. */
const SMALL = '+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none'

/**
 * Throws if another node uses this folder. Two nodes would destroy the data, and since each has an epmd of
 * its own they would not notice each other. A crash leaves the node's pid file behind, so the process itself
 * is checked.
 * @param {string} dir
 */
export function refuseSharedData(dir) {
  const pid = Number.parseInt(readText(join(dir, 'pid')), 10)
  const isSame = pid > 0 && readText(`/proc/${pid}/environ`).includes(`HOME=${dir}\0`)
  if (isSame) throw new Refusal(`A RabbitMQ node still uses ${dir}; end it with: kill ${pid}`)
}

/**
 * The ports of a node: free ones, but for the AMQP port if one is requested. The nodes of a cluster find each other
 * by one epmd.
 * @param {Pick<PrivateBrokerOptions, 'port' | 'joins'>} options
 */
export async function choosePorts({ port: amqp, joins }) {
  return {
    amqp: amqp ?? (await freePort()),
    management: await freePort(),
    prometheus: await freePort(),
    distribution: await freePort(),
    epmd: joins?.epmdPort ?? (await freePort()),
  }
}

/**
 * Writes everything that the node reads at its start, and its `rabbitmqctl`.
 * @param {NodeOptions} options
 * @param {Ports} ports
 */
export function writeNodeFiles(options, ports) {
  const { dir, vhost, plugins, conf, joins, advanced = '[].' } = options
  mkdirSync(join(dir, 'log'), { recursive: true })
  writeFileSync(join(dir, 'enabled_plugins'), `[${plugins.join(',')}].\n`)
  writeFileSync(join(dir, 'advanced.config'), `${advanced}\n`)
  const members = joins ? [joins.name, nodeName(options, ports)] : []
  const own = `${clusterOf(members)}${conf}`
  writeFileSync(join(dir, 'rabbitmq.conf'), configuration(vhost, ports, own))
  const cookie = join(dir, COOKIE)
  // Random: whoever knows the cookie can run code in the node, and every user of this machine can reach the
  // node.
  const secret = joins ? readText(join(joins.dir, COOKIE)) : randomBytes(24).toString('hex')
  if (!existsSync(cookie)) writeFileSync(cookie, secret, { mode: 0o400 })
  writeFileSync(join(dir, 'rabbitmqctl'), controlScript(options, ports), { mode: 0o700 })
}

/**
 * A `rabbitmqctl` for this node. The one on the PATH does not know its name, cookie and epmd.
 * @param {NodeOptions} options
 * @param {Ports} ports
 */
function controlScript(options, ports) {
  const variables = Object.entries(nodeEnvironment(options, ports)).map((pair) => pair.join('='))
  const command = inSystem(options.root, [join(options.sbin, 'rabbitmqctl')])
  const words = [...variables, ...command].map(shellWord)
  return `#!/bin/sh\nexec env -i \\\n  ${words.join(' \\\n  ')} "$@"\n`
}

/** @param {string} text */
function shellWord(text) {
  return `'${text.replaceAll("'", "'\\''")}'`
}

/**
 * The text of rabbitmq.conf. A later line overrides an earlier one, so `more` may override all of these.
 * @param {string} vhost
 * @param {Ports} ports
 * @param {string} more
 */
function configuration(vhost, ports, more) {
  return `default_vhost = ${vhost}
loopback_users = none
vm_memory_high_watermark.absolute = 512MB
disk_free_limit.absolute = 50MB
raft.wal_max_size_bytes = 64000000
log.file.level = info
management.tcp.ip = 127.0.0.1
management.tcp.port = ${ports.management}
prometheus.tcp.ip = 127.0.0.1
prometheus.tcp.port = ${ports.prometheus}
${more}
`
}

/**
 * A node without data joins the other one of these; RabbitMQ wants to find itself among them.
 * @param {readonly string[]} members
 */
function clusterOf(members) {
  return members
    .map((name, i) => `cluster_formation.classic_config.nodes.${i + 1} = ${name}\n`)
    .join('')
}

/**
 * The Erlang name of a node; within a cluster each has its own.
 * @param {Pick<PrivateBrokerOptions, 'joins'>} options
 * @param {Pick<Ports, 'amqp'>} ports
 */
export function nodeName({ joins }, { amqp }) {
  return joins ? `ojs-${amqp}@localhost` : 'ojs@localhost'
}

/**
 * What starts the server: `[command, ...args]`. A small node has a single scheduler, so one CPU is enough.
 * @param {NodeOptions} options
 * @returns {[string, ...string[]]}
 */
export function serverCommand({ sbin, erlArgs, root }) {
  const server = inSystem(root, [join(sbin, 'rabbitmq-server')])
  return erlArgs === undefined ? onOneCpu(server) : server
}

/** Only this process sees the other /usr; data, configuration and network are those of this system. */
const WITH_USR_OF = 'mount --bind "$0/usr" /usr && exec "$@"'

/**
 * @param {string | undefined} root
 * @param {[string, ...string[]]} command
 * @returns {[string, ...string[]]}
 */
function inSystem(root, command) {
  if (root === undefined) return command
  return ['unshare', '--mount', 'sh', '-c', WITH_USR_OF, root, ...command]
}

/**
 * The environment of the node and of its command line tools.
 * @param {NodeOptions} options
 * @param {Ports} ports
 */
export function nodeEnvironment(options, ports) {
  const { dir, erlArgs = SMALL } = options
  return {
    // Nothing else is inherited: a stray RABBITMQ_* or ERL_* variable would change the node.
    PATH: process.env['PATH'] ?? '/usr/sbin:/usr/bin:/sbin:/bin',
    LANG: 'C.UTF-8',
    HOME: dir,
    // By default the dump goes to the folder that `rabbitmqctl` was called from, such as the repository.
    ERL_CRASH_DUMP: join(dir, 'erl_crash.dump'),
    RABBITMQ_CONF_ENV_FILE: '/dev/null',
    RABBITMQ_NODENAME: nodeName(options, ports),
    RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
    RABBITMQ_NODE_PORT: String(ports.amqp),
    RABBITMQ_DIST_PORT: String(ports.distribution),
    ERL_EPMD_PORT: String(ports.epmd),
    ERL_EPMD_ADDRESS: '127.0.0.1',
    RABBITMQ_MNESIA_BASE: join(dir, 'mnesia'),
    RABBITMQ_LOG_BASE: join(dir, 'log'),
    RABBITMQ_CONFIG_FILE: join(dir, 'rabbitmq.conf'),
    RABBITMQ_ADVANCED_CONFIG_FILE: join(dir, 'advanced.config'),
    RABBITMQ_ENABLED_PLUGINS_FILE: join(dir, 'enabled_plugins'),
    RABBITMQ_PID_FILE: join(dir, 'pid'),
    RABBITMQ_PLUGINS_EXPAND_DIR: join(dir, 'expand'),
    RABBITMQ_GENERATED_CONFIG_DIR: join(dir, 'generated'),
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: `${erlArgs} -start_epmd false -kernel inet_dist_use_interface {127,0,0,1}`,
    // Makes the start script exec the Erlang machine instead of waiting for it. The pid we know is then that
    // of beam.smp: SIGTERM stops it cleanly, and SIGKILL hits it and not a shell.
    RUNNING_UNDER_SYSTEMD: 'true',
  }
}

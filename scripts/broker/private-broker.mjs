import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { speaksAmqp, takesConnections } from '../process/ports.mjs'
import { endProcess, guard, signalProcess, spawnHeld, unguard } from '../process/processes.mjs'
import { run, tail } from '../process/run.mjs'
import { loadingAtOnce } from './code-loading.mjs'
import { managementRequest } from './management-api.mjs'
import {
  choosePorts,
  DEFAULTS,
  nodeEnvironment,
  nodeName,
  refuseSharedData,
  serverCommand,
  writeNodeFiles,
} from './node-settings.mjs'
import { findEpmd, findErlCall } from './rabbitmq-package.mjs'

/** Generous: a node with much data starts slowly, and progress lines show what is being waited for. */
const START_TIMEOUT_MS = 600_000
/** A node that gets SIGTERM while it boots hangs, so it may finish booting even when unwanted. */
const FINISH_BOOT_MS = 15_000
const STOP_TIMEOUT_MS = 20_000
/** Without an epmd the node is started all the same: it explains best what is wrong. */
const EPMD_TIMEOUT_MS = 10_000
/** An epmd that ends sooner could not get its port. Another one could not either, so none is started. */
const EPMD_SETTLED_MS = 1000
/**
 * A node that lives for so long while its port answers does have the port, even if its log never says so in
 * the expected words. A node that could not get its port lived for 15 s on a very busy machine.
 */
const UNSAID_MS = 120_000

/** @typedef {{ pid: number, startedAt: number, exited: Promise<void> }} Child */

/**
 * A RabbitMQ node of the installed package with data, cookie, ports and epmd of its own. It listens on
 * 127.0.0.1 only and shares nothing with a system-wide RabbitMQ.
 */
export class PrivateBroker {
  #options
  /** @type {import('./node-settings.mjs').Ports | undefined} */
  #ports
  /** @type {Child | undefined} */
  #epmd
  /** @type {Child | undefined} */
  #beam

  /** @param {import('./node-settings.mjs').PrivateBrokerOptions} options */
  constructor(options) {
    this.#options = { ...DEFAULTS, ...options }
  }

  /**
   * Resolves when the node accepts connections. When `signal` aborts, the start is given up.
   * @param {AbortSignal} [signal]
   */
  async start(signal) {
    try {
      refuseSharedData(this.dir)
      this.#ports ??= await choosePorts(this.#options)
      writeNodeFiles(this.#options, this.#ports)
      await this.#startBeam(signal)
      signal?.throwIfAborted()
    } catch (error) {
      await this.stop()
      throw error
    }
    return this
  }

  get #chosenPorts() {
    if (!this.#ports) throw new Error('the node has not been started')
    return this.#ports
  }

  get port() {
    return this.#chosenPorts.amqp
  }

  /** The management plugin's port; undefined without the plugin. */
  get managementPort() {
    return this.#options.plugins.includes('rabbitmq_management')
      ? this.#chosenPorts.management
      : undefined
  }

  /** The port of the metrics page; only with the plugin rabbitmq_prometheus. */
  get prometheusPort() {
    return this.#chosenPorts.prometheus
  }

  /** That Erlang knows the node by. */
  get name() {
    return nodeName(this.#options, this.#chosenPorts)
  }

  get epmdPort() {
    return this.#chosenPorts.epmd
  }

  /** The process id of the Erlang machine (beam.smp) itself; undefined while it is down. */
  get pid() {
    return this.#beam?.pid
  }

  get epmdPid() {
    return this.#epmd?.pid
  }

  /** Settles when the Erlang machine that runs now has ended, for whatever reason. */
  get exited() {
    return this.#beam?.exited ?? Promise.resolve()
  }

  get dir() {
    return this.#options.dir
  }

  url(vhost = this.#options.vhost) {
    return `amqp://guest:guest@127.0.0.1:${this.port}/${encodeURIComponent(vhost)}`
  }

  /** Like a power cut: ends the Erlang machine at once. Its epmd stays. */
  async kill9() {
    if (!this.#beam) return
    const { pid, exited } = this.#beam
    signalProcess(pid, 'SIGKILL')
    await exited
  }

  /**
   * Starts the same node with the same data and ports again, after `kill9` or a crash, or while it runs. When
   * `signal` aborts, the start is given up.
   * @param {AbortSignal} [signal]
   */
  async restart(signal) {
    await this.#stopBeam()
    await this.#startBeam(signal)
  }

  /** Ends the node and its epmd. May be called at any time and repeatedly. */
  async stop() {
    if (this.#options.isDisposable) await this.kill9()
    await this.#stopBeam()
    const epmd = this.#epmd
    this.#epmd = undefined
    if (epmd) await endProcess(epmd.pid, epmd.exited, 2000)
  }

  /**
   * Returns the output of `rabbitmqctl …args`. Each call costs 1–2 s of CPU: prefer the management API.
   * @param {readonly string[]} args
   */
  async ctl(args) {
    // Run by the shell, because files below /tmp may not be executable (`noexec`).
    const result = await run('/bin/sh', [join(this.dir, 'rabbitmqctl'), ...args])
    if (result.code !== 0) throw new Error(`rabbitmqctl ${args.join(' ')}: ${tail(result.output)}`)
    return result.output
  }

  /**
   * Evaluates an Erlang expression in the node, as `rabbitmqctl eval` does, but with a hundredth of the CPU.
   * Returns its value as Erlang prints it.
   * @param {string} expression
   */
  async evaluate(expression) {
    const env = nodeEnvironment(this.#options, this.#chosenPorts)
    const args = ['-sname', this.name, '-e']
    const { output } = await run(findErlCall() ?? 'erl_call', args, {
      env,
      input: `${expression}.\n`,
    })
    const [, value] = /^\{ok, (.*)\}$/s.exec(output) ?? []
    if (value === undefined) throw new Error(`${expression}: ${tail(output)}`)
    return value
  }

  /** @param {AbortSignal} [signal] */
  async #startBeam(signal) {
    await this.#startEpmd()
    signal?.throwIfAborted()
    const [command, ...args] = serverCommand(this.#options)
    // Only for the server: `rabbitmqctl` needs hardly any of these modules.
    const env = { ERL_AFLAGS: loadingAtOnce(this.#options.plugins) }
    this.#beam = this.#spawn(command, args, 'console', env)
    await this.#untilReady(this.#beam, signal)
  }

  /**
   * Starts epmd in the foreground and before the node. A node that finds no epmd starts one as a daemon,
   * which nobody would end.
   */
  async #startEpmd() {
    const { epmd: port } = this.#chosenPorts
    if (this.#options.joins) return
    this.#epmd ??= this.#spawnEpmd()
    const deadline = Date.now() + EPMD_TIMEOUT_MS
    while (this.#epmd !== undefined && Date.now() < deadline) {
      if (await takesConnections(port)) return
      await sleep(20)
    }
  }

  #spawnEpmd() {
    const args = ['-address', '127.0.0.1', '-port', String(this.#chosenPorts.epmd)]
    return this.#spawn(findEpmd() ?? 'epmd', args, 'epmd')
  }

  async #stopBeam() {
    const beam = this.#beam
    if (beam) await endProcess(beam.pid, beam.exited, STOP_TIMEOUT_MS)
  }

  /**
   * @param {Child} beam
   * @param {AbortSignal} [signal]
   */
  async #untilReady(beam, signal) {
    let deadline = Date.now() + START_TIMEOUT_MS
    const giveUp = () => {
      deadline = this.#options.isDisposable ? 0 : Date.now() + FINISH_BOOT_MS
    }
    if (signal?.aborted) giveUp()
    signal?.addEventListener('abort', giveUp, { once: true })
    let greetedAt = Number.POSITIVE_INFINITY
    while (this.#beam === beam && Date.now() < deadline) {
      if (await speaksAmqp(this.port)) {
        greetedAt = Math.min(greetedAt, Date.now())
        const isOurs = this.#saysBooted() || Date.now() - greetedAt > UNSAID_MS
        if (isOurs && (await this.#managementAnswers())) return
      }
      await sleep(100)
    }
    signal?.throwIfAborted()
    const log = this.#consoleLog
    throw new Error(
      `RabbitMQ did not start; the end of ${log}:\n${tail(readFileSync(log, 'utf8'))}`,
    )
  }

  /** Whether our node has booted: another node may have taken the port and be the one that answers. */
  #saysBooted() {
    return readFileSync(this.#consoleLog, 'utf8').includes('Starting broker... completed')
  }

  /** Overwritten at each start of the node. */
  get #consoleLog() {
    return join(this.dir, 'log', 'console.log')
  }

  async #managementAnswers() {
    if (!this.managementPort) return true
    const answer = managementRequest(this.managementPort, 'GET', '/whoami')
    return answer.then(
      ({ status }) => status === 200,
      () => false,
    )
  }

  /**
   * @param {string} command
   * @param {readonly string[]} args
   * @param {string} logName
   * @param {NodeJS.ProcessEnv} env
   * @returns {Child}
   */
  #spawn(command, args, logName, env = {}) {
    const log = openSync(join(this.dir, 'log', `${logName}.log`), 'w')
    const { child, letGo } = spawnHeld(command, args, {
      env: { ...nodeEnvironment(this.#options, this.#chosenPorts), ...env },
      cwd: this.dir,
      // In a session of its own: Ctrl-C must reach the gateway first, and the broker only after it.
      detached: true,
      output: log,
    })
    closeSync(log)
    const { pid } = child
    if (!pid) throw new Error(`cannot run ${command}`)
    guard(pid)
    letGo()
    const exited = new Promise((resolve) => child.once('exit', resolve))
    return { pid, startedAt: Date.now(), exited: exited.then(() => this.#forget(pid)) }
  }

  /** @param {number} pid */
  #forget(pid) {
    unguard(pid)
    if (this.#beam?.pid === pid) this.#beam = undefined
    if (this.#epmd?.pid !== pid) return
    const hadSettled = Date.now() - this.#epmd.startedAt > EPMD_SETTLED_MS
    this.#epmd = undefined
    // At once: the node looks for epmd once a minute, and starts one as a daemon if there is none.
    if (this.#beam && hadSettled) this.#epmd = this.#spawnEpmd()
  }
}

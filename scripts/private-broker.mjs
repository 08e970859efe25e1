import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { loadingAtOnce } from './code-loading.mjs'
import { managementRequest } from './management-api.mjs'
import {
  choosePorts,
  DEFAULTS,
  nodeEnvironment,
  refuseSharedData,
  writeNodeFiles,
} from './node-settings.mjs'
import { speaksAmqp, takesConnections } from './ports.mjs'
import { endProcess, guard, signalProcess, spawnHeld, unguard } from './processes.mjs'
import { findEpmd } from './rabbitmq-package.mjs'
import { run, tail } from './run.mjs'

/** Generous: a node with much data takes its time, and progress lines tell that it is waited for. */
const START_TIMEOUT_MS = 600_000
/** SIGTERM while a node boots makes it hang; so it may finish booting even when nobody wants it. */
const FINISH_BOOT_MS = 15_000
const STOP_TIMEOUT_MS = 20_000
/** It takes some milliseconds; without it the node says best what is wrong. */
const EPMD_TIMEOUT_MS = 10_000
/** An epmd that ends sooner cannot have its port: no other could. */
const EPMD_SETTLED_MS = 1000
/**
 * A node that answers and lives for so long has its port, should it ever say so in other words. One
 * that cannot have it lived for 15 s on a very busy machine.
 */
const UNSAID_MS = 120_000
/**
 * A RabbitMQ node of the installed package with everything of its own: data, cookie, ports, epmd.
 * It listens on 127.0.0.1 only and shares nothing with a system-wide RabbitMQ. The signatures for
 * TypeScript are in private-broker.d.mts.
 */
export class PrivateBroker {
  #options
  #ports
  #epmd
  #beam

  constructor(options) {
    this.#options = { ...DEFAULTS, ...options }
  }

  /** Resolves when it takes connections. `signal` gives up on it. */
  async start(signal) {
    refuseSharedData(this.dir)
    this.#ports ??= await choosePorts(this.#options)
    writeNodeFiles(this.#options, this.#ports)
    try {
      await this.#startBeam(signal)
      signal?.throwIfAborted()
    } catch (error) {
      await this.stop()
      throw error
    }
    return this
  }

  get port() {
    return this.#ports.amqp
  }

  /** The management plugin's port; undefined without the plugin. */
  get managementPort() {
    return this.#options.plugins.includes('rabbitmq_management')
      ? this.#ports.management
      : undefined
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

  /** As a power cut would: the Erlang machine is gone at once, its epmd stays. */
  async kill9() {
    if (!this.#beam) return
    const { pid, exited } = this.#beam
    signalProcess(pid, 'SIGKILL')
    await exited
  }

  /**
   * The same node with the same data on the same ports, after `kill9`, a crash or while it runs.
   * `signal` gives up on it.
   */
  async restart(signal) {
    await this.#stopBeam()
    await this.#startBeam(signal)
  }

  /** Ends the node and its epmd. May be called at any time, any number of times. */
  async stop() {
    if (this.#options.isDisposable) await this.kill9()
    await this.#stopBeam()
    const epmd = this.#epmd
    this.#epmd = undefined
    if (epmd) await endProcess(epmd.pid, epmd.exited, 2000)
  }

  /** Output of `rabbitmqctl …args`. Costs 1–2 s of CPU per call: prefer the management API. */
  async ctl(args) {
    // By the shell: a file below /tmp may not be executable itself (`noexec`).
    const result = await run('/bin/sh', [join(this.dir, 'rabbitmqctl'), ...args])
    if (result.code !== 0) throw new Error(`rabbitmqctl ${args.join(' ')}: ${tail(result.output)}`)
    return result.output
  }

  async #startBeam(signal) {
    await this.#startEpmd()
    signal?.throwIfAborted()
    const server = join(this.#options.sbin, 'rabbitmq-server')
    // Not for its `rabbitmqctl`, which needs next to nothing of it.
    const env = { ERL_AFLAGS: loadingAtOnce(this.#options.plugins) }
    this.#beam = this.#spawn(server, [], 'console', env)
    await this.#untilReady(this.#beam, signal)
  }

  /**
   * In the foreground and before the node: a node that finds none starts a daemon, which nobody
   * would end.
   */
  async #startEpmd() {
    const { epmd: port } = this.#ports
    this.#epmd ??= this.#spawnEpmd()
    const deadline = Date.now() + EPMD_TIMEOUT_MS
    while (this.#epmd !== undefined && Date.now() < deadline) {
      if (await takesConnections(port)) return
      await sleep(20)
    }
  }

  #spawnEpmd() {
    const args = ['-address', '127.0.0.1', '-port', String(this.#ports.epmd)]
    return this.#spawn(findEpmd(), args, 'epmd')
  }

  async #stopBeam() {
    const beam = this.#beam
    if (beam) await endProcess(beam.pid, beam.exited, STOP_TIMEOUT_MS)
  }

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

  /** Whoever answers on the port may be another node that was quicker to take it. */
  #saysBooted() {
    return readFileSync(this.#consoleLog, 'utf8').includes('Starting broker... completed')
  }

  /** Begun anew with each start of the node. */
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

  #spawn(command, args, logName, env = {}) {
    const log = openSync(join(this.dir, 'log', `${logName}.log`), 'w')
    const { child, letGo } = spawnHeld(command, args, {
      env: { ...nodeEnvironment(this.#options, this.#ports), ...env },
      cwd: this.dir,
      // In a session of its own: Ctrl-C must reach the gateway first and the broker after it.
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

  #forget(pid) {
    unguard(pid)
    if (this.#beam?.pid === pid) this.#beam = undefined
    if (this.#epmd?.pid !== pid) return
    const hadSettled = Date.now() - this.#epmd.startedAt > EPMD_SETTLED_MS
    this.#epmd = undefined
    // At once: a node that misses it, and it looks once a minute, starts a daemon.
    if (this.#beam && hadSettled) this.#epmd = this.#spawnEpmd()
  }
}

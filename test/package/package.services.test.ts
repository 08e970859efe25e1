import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ROOT, scratchDir } from '../sdk/bundle.ts'
import { createVhost } from '../support/broker/rabbit.ts'

const inModules = (...names: string[]) => join(ROOT, 'node_modules', ...names)
const TSC = inModules('typescript', 'bin', 'tsc')
const ATTW = inModules('@arethetypeswrong', 'cli', 'dist', 'index.js')

/** The strictest options that a program using the package may compile with. */
const STRICT = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  noPropertyAccessFromIndexSignature: true,
  skipLibCheck: false,
  types: ['node'],
}

const vhost = await createVhost()
afterAll(() => vhost.drop())
const consumer = scratchDir()
let tarball = ''

// npm asks its registry only for packages that its cache does not have.
beforeAll(async () => {
  const packed = await output('npm', ['pack', '--silent', '--pack-destination', consumer], ROOT)
  tarball = join(consumer, packed.trim())
  writeFileSync(join(consumer, 'package.json'), '{ "name": "consumer", "type": "module" }')
  const quietly = ['--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error']
  await output('npm', ['install', ...quietly, tarball])
  symlinkSync(inModules('@types'), join(consumer, 'node_modules', '@types'))
}, 180_000)

/** Runs the command and returns its stdout. Rejects with all its output if it fails. */
async function output(command: string, args: readonly string[], cwd = consumer): Promise<string> {
  const { stdout } = await promisify(execFile)(command, args, { cwd, env: environment() }).catch(
    (error: Error & { stdout: string; stderr: string }) => {
      throw new Error(`${command} ${args.join(' ')}\n${error.stdout}\n${error.stderr}`)
    },
  )
  return stdout
}

/** The environment without our variables, and without those by which npm knows that it runs inside npm. */
function environment(): NodeJS.ProcessEnv {
  const own = /^(OJS_|AMQP_URL$|NODE_OPTIONS$|npm_(package|lifecycle|command)|VITEST)/
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !own.test(name)))
}

/** Type-checks one file with `compilerOptions` and compiles it into the same folder. */
async function compile(file: string, compilerOptions: object): Promise<void> {
  const target = { target: 'es2023', lib: ['es2023'], module: 'nodenext' }
  const project = { compilerOptions: { ...target, ...STRICT, ...compilerOptions }, files: [file] }
  writeFileSync(join(consumer, 'tsconfig.json'), JSON.stringify(project))
  await output(process.execPath, [TSC, '-p', consumer])
}

// Compiler, package checks and installation take seconds, or minutes on a busy machine.
describe('the package that npm packs', () => {
  test('contains only built files, deploy, docs, examples, topology and the files that npm requires', async () => {
    const files = (await output('tar', ['-tzf', tarball])).trim().split('\n')
    const others = files.filter(
      (name) => !/^package\/(deploy|dist|docs|examples|topology)\//.test(name),
    )
    expect(others.sort()).toEqual(['package/LICENSE', 'package/README.md', 'package/package.json'])
    const kinds = /\.(js|d\.ts|js\.map)$/
    const built = files.filter((name) => /^package\/dist\/(?!console\/)/.test(name))
    expect(built.filter((name) => !kinds.test(name))).toEqual([])
    expect(files).toContain('package/topology/topology.json')
  })

  test('contains the docs pages that its README names', async () => {
    const readme = readFileSync(join(ROOT, 'README.md'), 'utf8')
    const named = new Set(readme.match(/docs\/[\w/-]+\.md/g))
    const files = (await output('tar', ['-tzf', tarball])).trim().split('\n')
    expect(named.size).toBeGreaterThan(3)
    for (const page of named) expect(files).toContain(`package/${page}`)
  })

  test('has source maps that contain the sources', () => {
    const map = join(consumer, 'node_modules', 'ojs-rabbitmq', 'dist', 'gateway.js.map')
    const { sourcesContent } = JSON.parse(readFileSync(map, 'utf8'))
    expect(sourcesContent).toEqual([readFileSync(join(ROOT, 'src', 'gateway.ts'), 'utf8')])
  })

  test('has no complaints of publint', async () => {
    const bytes = readFileSync(tarball)
    const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength)
    const { messages, pkg } = await publint({ strict: true, pack: { tarball: buffer } })
    expect(messages.map((message) => formatMessage(message, pkg, { color: false }))).toEqual([])
  })

  test('has no complaints of attw about the types of its entry points', async () => {
    await output(process.execPath, [ATTW, tarball, '--profile', 'esm-only', '--no-emoji'])
  })

  test('exports the documented names from each entry point', async () => {
    const names = ['', '/sdk', '/worker', '/testing']
    const entries = names.map((name) => `ojs-rabbitmq${name}`)
    const file = join(consumer, 'names.mjs')
    writeFileSync(
      file,
      `const names = []
      for (const entry of ${JSON.stringify(entries)}) names.push(Object.keys(await import(entry)))
      console.log(JSON.stringify(names))`,
    )
    const [server, sdk, worker, testing] = JSON.parse(await output(process.execPath, [file]))
    expect(server).toEqual(['ConfigError', 'createLogger', 'readConfig', 'startGateway'])
    expect(sdk).toEqual(expect.arrayContaining(['Client', 'OJSClient', 'OJSWorker', 'Worker']))
    expect(worker).toEqual(expect.arrayContaining(['NativeProducer', 'NativeWorker', 'amqpSource']))
    expect(testing).toEqual(['startTestServer'])
  })

  test('can be used with its types by a CommonJS program in TypeScript', async () => {
    writeFileSync(
      join(consumer, 'common.cts'),
      `import { readConfig } from 'ojs-rabbitmq'
      import { chain, OJSClient } from 'ojs-rabbitmq/sdk'
      import { NativeProducer } from 'ojs-rabbitmq/worker'
      export const made = [new OJSClient({ url: 'http://h' }), chain({ type: 'a' }), NativeProducer]
      console.log(made.length, readConfig({}).config.port)`,
    )
    await compile('common.cts', { declaration: true })
    expect(await output(process.execPath, ['common.cjs'])).toBe('3 8080\n')
  })

  test('exports the types of all results, so that a library with calls in its own exports compiles', async () => {
    writeFileSync(
      join(consumer, 'library.ts'),
      `import { OJSClient, OJSWorker, runInline } from 'ojs-rabbitmq/sdk'
      import { NativeProducer } from 'ojs-rabbitmq/worker'
      const { queues, cron, deadLetters, schemas, workers, workflows } = new OJSClient({ url: 'http://h' })
      export const resources = { queues, cron, deadLetters, schemas, workers, workflows }
      export const ofQueues = [() => queues.list(), () => queues.stats('q')]
      export const [pause, resume] = [() => queues.pause('q'), () => queues.resume('q')]
      export const ofCron = [() => cron.list(), () => cron.get('c'), () => cron.delete('c')]
      export const ofDead = [() => deadLetters.list(), () => deadLetters.delete('d')]
      export const ofSchemas = [() => schemas.list(), () => schemas.get('s')]
      export const ofWorkers = [() => workers.list(), () => workers.quiet('w')]
      export const ofWorkflows = [() => workflows.list(), () => workflows.cancel('f')]
      export const worker = new OJSWorker({ url: 'http://h' })
      export const ofWorker = [() => worker.stop(), () => runInline(worker, { type: 'a' })]
      export const producer = new NativeProducer({ url: 'amqp://h' })
      export const enqueue = () => producer.enqueueBatch([])`,
    )
    await compile('library.ts', { declaration: true })
  })

  test('has TypeScript examples that compile by the commands of examples/README.md', async () => {
    const page = readFileSync(join(ROOT, 'examples', 'README.md'), 'utf8')
    const [, copy = ''] = /^(cp -r \S+ \S+)/m.exec(page) ?? []
    const [, project = ''] = /^npx tsc -p (\S+)$/m.exec(page) ?? []
    await output('sh', ['-euc', copy])
    await output(process.execPath, [TSC, '-p', project])
    const run = /node (\S+\/dist\/\S+\.js)/g
    const programs = [...page.matchAll(run)].map(([, program = '']) => program)
    expect(programs).toHaveLength(2)
    for (const program of programs) expect(existsSync(join(consumer, program)), program).toBe(true)
  })

  test('type-checks in a browser program without the types of Node.js', async () => {
    const file = join(consumer, 'browser.ts')
    writeFileSync(
      file,
      `import { OJSClient } from 'ojs-rabbitmq/sdk'
      const client: OJSClient = new OJSClient({ url: '/' })
      // @ts-expect-error a number is no type of job
      await client.enqueue(1)`,
    )
    const lib = ['es2023', 'dom']
    await compile(file, { module: 'esnext', moduleResolution: 'bundler', lib, types: [] })
  })

  test('runs the program of the guide "As a package"', async () => {
    const page = readFileSync(join(ROOT, 'docs/guide/package.md'), 'utf8')
    const [, code = ''] = /```ts\n([\s\S]*?)```/.exec(page) ?? []
    const own = code
      .replaceAll("'amqp://127.0.0.1:5672/%2Fojs'", JSON.stringify(vhost.url))
      .replace("OJS_PORT: '8080'", "OJS_PORT: '0', OJS_LOG_LEVEL: 'silent'")
    expect(own).toContain(vhost.url)
    expect(own).toContain("OJS_PORT: '0'")
    writeFileSync(join(consumer, 'readme.ts'), own)
    await compile('readme.ts', {})
    const printed = await output(process.execPath, ['readme.js'])
    expect(printed).toBe('http: user@example.com\namqp: other@example.com\n')
  })

  test('runs the integration test of the guide "As a package"', async () => {
    const page = readFileSync(join(ROOT, 'docs/guide/package.md'), 'utf8')
    const [, code = ''] =
      /## In your integration tests[\s\S]*?```ts\n([\s\S]*?)```/.exec(page) ?? []
    const own = code.replace('startTestServer({})', `startTestServer({ amqpUrl: '${vhost.url}' })`)
    expect(own).toContain(vhost.url)
    writeFileSync(join(consumer, 'integration.ts'), own)
    await compile('integration.ts', {})
    expect(await output(process.execPath, ['integration.js'])).toBe('119\n')
  })

  test('has a command `ojs-rabbitmq serve` that starts a gateway and ends at SIGTERM', async () => {
    const bin = join(consumer, 'node_modules', '.bin', 'ojs-rabbitmq')
    const env = { ...environment(), OJS_PORT: '0', OJS_AMQP_URL: vhost.url }
    const stdio: ['ignore', 'pipe', 'inherit'] = ['ignore', 'pipe', 'inherit']
    const child = spawn(bin, ['serve'], { cwd: consumer, env, stdio })
    const ended = once(child, 'exit')
    try {
      const url = await listening(child.stdout)
      const manifest = await fetch(`${url}/ojs/manifest`)
      expect(await manifest.json()).toHaveProperty('implementation.version', version())
    } finally {
      child.kill()
    }
    expect(await ended).toEqual([0, null])
  })
})

function version(): unknown {
  return JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version
}

/** Resolves with the URL in the log line that says where the gateway listens. */
function listening(stdout: NodeJS.ReadableStream): Promise<string> {
  const lines: string[] = []
  return new Promise((resolve, reject) => {
    const reader = createInterface(stdout)
    reader.on('line', (line) => {
      lines.push(line)
      if (line.includes('gateway listening')) resolve(JSON.parse(line).url)
    })
    reader.on('close', () => reject(new Error(`the gateway ended:\n${lines.join('\n')}`)))
  })
}

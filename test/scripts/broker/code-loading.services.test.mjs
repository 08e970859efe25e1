import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { loadingAtOnce } from '../../../scripts/broker/code-loading.mjs'
import { findExecutable, run } from '../../../scripts/process/run.mjs'
import { testVariables } from '../../../scripts/test/environment.mjs'

const dir = mkdtempSync(join(tmpdir(), 'ojs-code-loading-'))
afterAll(() => rmSync(dir, { recursive: true }))
const plugins = join(process.env[testVariables.sbin], '..', 'plugins')
const erl = findExecutable('erl', ['/usr/lib/erlang/bin'])

/** Which of these modules an Erlang VM with these flags has loaded before any of them is called. */
function loaded(modules, flags) {
  return answered(`[M || M <- [${modules.join(', ')}], code:is_loaded(M) =/= false]`, flags)
}

async function answered(expression, flags) {
  const program = `io:format("~p", [${expression}]), halt().`
  const env = {
    PATH: process.env.PATH,
    HOME: dir,
    ERL_CRASH_DUMP_SECONDS: '0',
    ERL_LIBS: `${plugins}:${dir}`,
    ERL_AFLAGS: flags,
  }
  const { code, output } = await run(erl, ['-noinput', '-eval', program], { env })
  expect(code).toBe(0)
  return output
}

const MODULES = ['rabbit', 'ra', 'mnesia', 'rabbit_mgmt_sup', 'cowboy']

test('loadingAtOnce loads the code of RabbitMQ and its dependencies at the start of the VM', async () => {
  expect(await loaded(MODULES, '')).toBe('[]')
  expect(await loaded(MODULES, loadingAtOnce([]))).toBe('[rabbit,ra,mnesia]')
})

test('loadingAtOnce loads plugins as well, and ignores a missing one', async () => {
  const flags = loadingAtOnce(['none_such', 'rabbitmq_management'])
  expect(await loaded(MODULES, flags)).toBe('[rabbit,ra,mnesia,rabbit_mgmt_sup,cowboy]')
})

test('loadingAtOnce removes its flags from the environment of the programs that RabbitMQ starts', async () => {
  const inherited = 'os:getenv("ERL_AFLAGS", none)'
  expect(await answered(inherited, '+W w')).toBe('"+W w"')
  expect(await answered(inherited, loadingAtOnce([]))).toBe('none')
})

test('loadingAtOnce loads nothing when an application file cannot be read, and the VM starts', async () => {
  mkdirSync(join(dir, 'odd', 'ebin'), { recursive: true })
  writeFileSync(join(dir, 'odd', 'ebin', 'odd.app'), '{application, odd, none}.')
  expect(await loaded(MODULES, loadingAtOnce(['odd']))).toBe('[]')
})

test('loadingAtOnce leaves out modules that run code when they are loaded, and loads the others beside them', async () => {
  const ebin = join(dir, 'eager', 'ebin')
  mkdirSync(ebin, { recursive: true })
  const keys = '[{vsn, "1"}, {modules, [eager_start, eager_other]}]'
  writeFileSync(join(ebin, 'eager.app'), `{application, eager, ${keys}}.`)
  writeFileSync(
    join(dir, 'eager_start.erl'),
    '-module(eager_start).\n-on_load(begin_it/0).\nbegin_it() -> ok.\n',
  )
  writeFileSync(join(dir, 'eager_other.erl'), '-module(eager_other).\n')
  const sources = ['eager_start.erl', 'eager_other.erl'].map((name) => join(dir, name))
  const compiler = findExecutable('erlc', ['/usr/lib/erlang/bin'])
  expect(await run(compiler, ['-o', ebin, ...sources])).toEqual({
    code: 0,
    signal: null,
    output: '',
  })
  const modules = ['eager_start', 'eager_other']
  expect(await loaded(modules, '')).toBe('[]')
  expect(await loaded(modules, loadingAtOnce(['eager']))).toBe('[eager_other]')
})

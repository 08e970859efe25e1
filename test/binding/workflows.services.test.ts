import { describe, expect, it } from 'vitest'
import { fetchOne, freshQueue, gatewayForAll } from '../operations/harness.ts'
import { expectAsPrinted } from './printed.ts'

const { gateway } = gatewayForAll()

const NONE = '019414d4-0000-7000-8000-000000000000'
const WORKFLOWS = '/ojs/v1/workflows'

/** The workflow that seed 001 §14.1 prints, in a queue of the test. */
function printedWorkflow(queue: string): { steps: object[]; [member: string]: unknown } {
  return {
    name: 'onboarding-pipeline',
    steps: [
      {
        id: 'send-welcome',
        type: 'email.send',
        args: ['user@example.com', 'welcome', { locale: 'en' }],
        depends_on: [],
      },
      {
        id: 'create-profile',
        type: 'user.create_profile',
        args: ['user@example.com', { plan: 'free' }],
        depends_on: [],
      },
      {
        id: 'send-confirmation',
        type: 'email.send',
        args: ['user@example.com', 'profile_ready', { locale: 'en' }],
        depends_on: ['send-welcome', 'create-profile'],
      },
    ],
    options: { queue },
  }
}

async function created(): Promise<{ id: string; queue: string }> {
  const queue = freshQueue()
  const { status, body } = await gateway.request('POST', WORKFLOWS, printedWorkflow(queue))
  expect(status, JSON.stringify(body)).toBe(201)
  return { id: body.workflow.id, queue }
}

/** Returns a workflow whose first step is completed and whose second one runs. */
async function underWay(): Promise<string> {
  const { id, queue } = await created()
  const first = await fetchOne(gateway, queue)
  await gateway.ack(first.id, { result: { message_id: 'msg' } })
  await fetchOne(gateway, queue)
  return id
}

const unknown = { status: 404, body: { error: { code: 'not_found', retryable: false } } }

describe('POST /ojs/v1/workflows', () => {
  it('201: starts the workflow and answers its Location, as printed in §14.1', async () => {
    const answer = await gateway.request('POST', WORKFLOWS, printedWorkflow(freshQueue()))
    expectAsPrinted(answer, '14.1 201')
    expect(answer.headers.get('Location')).toBe(`${WORKFLOWS}/${answer.body.workflow.id}`)
  })

  it.each([
    ['a cycle', { id: 'send-welcome', depends_on: ['send-confirmation'] }],
    ['a dependency that does not exist', { id: 'x', depends_on: ['y'] }],
  ])('400 invalid_request: an invalid graph, which starts nothing, %s', async (_what, step) => {
    const queue = freshQueue()
    const { steps, ...rest } = printedWorkflow(queue)
    const changed = [{ type: 'email.send', args: [], ...step }, ...steps.slice(1)]
    expect(await gateway.request('POST', WORKFLOWS, { ...rest, steps: changed })).toMatchObject({
      status: 400,
      body: { error: { code: 'invalid_request', retryable: false } },
    })
    expect(await gateway.fetch([queue])).toEqual([])
  })
})

describe('GET /ojs/v1/workflows/:id', () => {
  it('200: as printed in §14.2', async () => {
    expectAsPrinted(await gateway.request('GET', `${WORKFLOWS}/${await underWay()}`), '14.2 200')
  })

  it('404 not_found: an unknown workflow', async () => {
    expect(await gateway.request('GET', `${WORKFLOWS}/${NONE}`)).toMatchObject(unknown)
  })
})

describe('DELETE /ojs/v1/workflows/:id', () => {
  it('200: as printed in §14.3', async () => {
    const id = await underWay()
    const answer = await gateway.request('DELETE', `${WORKFLOWS}/${id}`)
    expectAsPrinted(answer, '14.3 200')
    expect(answer.body.workflow).toMatchObject({ steps_cancelled: 2, steps_already_completed: 1 })
  })

  it('404 not_found: an unknown workflow', async () => {
    expect(await gateway.request('DELETE', `${WORKFLOWS}/${NONE}`)).toMatchObject(unknown)
  })

  it('409 invalid_request: a workflow that has ended', async () => {
    const { id } = await created()
    await gateway.request('DELETE', `${WORKFLOWS}/${id}`)
    expect(await gateway.request('DELETE', `${WORKFLOWS}/${id}`)).toMatchObject({
      status: 409,
      body: { error: { code: 'invalid_request', retryable: false } },
    })
  })
})

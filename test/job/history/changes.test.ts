import { expect, it } from 'vitest'
import { historyLine, readHistory } from '../../../src/job/history/changes.ts'
import { JOB_STATES } from '../../../src/job/job.ts'

// A line has the first two letters of the state only, which the SQL of unique jobs reads too.
it.each(JOB_STATES)('the history tells %s from every other state', (state) => {
  expect(readHistory(historyLine(1, state, 0, null)).changes).toMatchObject([{ to: state }])
})

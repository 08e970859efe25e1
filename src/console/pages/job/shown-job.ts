/** The job that the page shows. */
import type { Answer } from '../../api/client.ts'

export type ShownJob = Answer<'GET /ojs/v1/admin/jobs/{id}'>

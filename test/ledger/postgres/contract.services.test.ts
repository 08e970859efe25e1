import { amount } from '../../support/soak.ts'
import { ledgerContract, PROPERTIES, RULES } from '../contract.ts'
import { postgresHarnesses } from './harness.ts'

ledgerContract('PostgreSQL', postgresHarnesses(), [...RULES, ...PROPERTIES], amount(1 / 50, 1))

import { ledgerContract, RULES } from '../contract.ts'
import { sqliteHarnesses } from './harness.ts'

ledgerContract('SQLite', sqliteHarnesses(), RULES)

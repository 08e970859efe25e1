import { ledgerContract, RULES } from './contract.ts'
import { sqliteHarnesses } from './sqlite-harness.ts'

ledgerContract('SQLite', sqliteHarnesses(), RULES)

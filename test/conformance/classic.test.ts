import { describeConformance } from './profile.ts'

// A file for each profile: they run side by side, most of the time waiting for delays.
describeConformance('classic')

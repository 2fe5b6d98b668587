import { fetched } from '@/parts/fetched'

/**
 * A chart with a name, a sentence that says what it shows, and its data to take away as PNG, SVG or CSV.
 *
 * The library that draws it is most of the dashboard's weight, and comes only with the first chart; pages that always
 * have one fetch it while they ask for their data.
 */
export const [Chart, fetchCharts] = fetched(() => import('@/charts/Drawn'), 'the chart')

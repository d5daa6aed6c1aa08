import com.github.benmanes.caffeine.cache.Caffeine;

/**
 * Misses of 1,000 random traces by Caffeine, whose authors published W-TinyLFU, for tests/witness.rs:
 *
 * java -cp caffeine-3.2.0.jar Caffeine.java > ../fixtures/caffeine.txt
 *
 * (Maven: com.github.ben-manes.caffeine:caffeine:3.2.0.) A trace is shorter than ten times the cache: later Caffeine would
 * adapt the size of its window.
 */
class Witness {
    static final int TRACES = 1000, REQUESTS = 1900, PROGRAMS = 1000, SIZE = 200;

    public static void main(String[] args) {
        var line = new StringBuilder("w-tinylfu " + SIZE + " entries");
        for (long seed = 0; seed < TRACES; seed++) {
            line.append(' ').append(misses(seed));
        }
        System.out.println(line);
    }

    /** The same numbers as in tests/witness.rs. */
    static int misses(long seed) {
        long state = seed;
        int misses = 0;
        var cache = Caffeine.newBuilder().maximumSize(SIZE).executor(Runnable::run).<Integer, Integer>build();
        for (int at = 0; at < REQUESTS; at++) {
            long least = PROGRAMS;
            for (int draw = 0; draw < 2; draw++) {
                state = state * 6364136223846793005L + 1442695040888963407L;
                least = Math.min(least, (state >>> 33) % PROGRAMS);
            }
            int program = (int) (least + (at >= REQUESTS / 2 ? PROGRAMS / 2 : 0)) % PROGRAMS;
            if (cache.getIfPresent(program) == null) {
                misses++;
                cache.put(program, program);
            }
            cache.cleanUp();
        }
        return misses;
    }
}

import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.mapreduce.v2.MiniMRYarnCluster;

/**
 * A name node and a data node below a folder, and YARN if the second argument says so, on free ports. Writes addresses
 * and settings to files of that folder, and ends with its input. The superuser is the one whom HADOOP_USER_NAME names.
 */
class Hdfs {
    public static void main(String[] arguments) {
        int status = 1; // whatever happens, its threads end
        try {
            serve(Path.of(arguments[0]).toAbsolutePath(), arguments.length > 1 && arguments[1].equals("yarn"));
            status = 0;
        } catch (Exception | Error e) {
            e.printStackTrace();
        } finally {
            System.exit(status);
        }
    }

    private static void serve(Path folder, boolean hasYarn) throws Exception {
        Configuration conf = new Configuration();
        conf.set("hadoop.tmp.dir", folder.resolve("tmp").toString());
        conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, folder.resolve("hdfs").toString());
        conf.setInt("dfs.namenode.fs-limits.min-block-size", 512);
        conf.setInt("dfs.replication", 1);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf).numDataNodes(1).build();
        cluster.waitActive();
        org.apache.hadoop.fs.Path root = new org.apache.hadoop.fs.Path("/");
        cluster.getFileSystem().setPermission(root, new FsPermission((short) 01777));
        MiniMRYarnCluster yarn = hasYarn ? startYarn(conf) : null;
        try (OutputStream out = Files.newOutputStream(folder.resolve("site.xml"))) {
            (hasYarn ? yarn.getConfig() : conf).writeXml(out);
        }
        Path told = folder.resolve("address.part");
        Files.writeString(told, cluster.getURI() + " " + cluster.getHttpUri(0));
        Files.move(told, folder.resolve("address"));
        while (System.in.read() >= 0) {}
        if (hasYarn) {
            yarn.stop();
        }
        cluster.shutdown();
    }

    private static MiniMRYarnCluster startYarn(Configuration conf) {
        conf.set("yarn.app.mapreduce.am.staging-dir", "/staging");
        for (String check : new String[] {"vmem-check-enabled", "pmem-check-enabled", "disk-health-checker.enable"}) {
            conf.setBoolean("yarn.nodemanager." + check, false);
        }
        MiniMRYarnCluster yarn = new MiniMRYarnCluster("yarn", 1);
        yarn.init(conf);
        yarn.start();
        return yarn;
    }
}
